#include "planner/estimate/run_vocabulary.h"

#include <fmt/format.h>

#include <array>

#include "planner/estimate/argument_value.h"

namespace tidemark::estimate {
namespace {

struct Known {
  std::string_view key;
  std::int64_t size;
  std::string_view source;
};

/// Tokenizers that stand for one vocabulary.
constexpr std::array kTokenizers = {
    Known{"GPT2BPETokenizer", 50257, "vocab.json of GPT-2"},
    Known{"BertWordPieceLowerCase", 30522, "vocab.txt of bert-base-uncased"},
    Known{"BertWordPieceCase", 28996, "vocab.txt of bert-base-cased"},
    Known{"Llama2Tokenizer", 32000, "tokenizer.model of Llama 2"},
    Known{"GPTSentencePieceTokenizer", 256000, "the 256k SentencePiece model of Megatron-LM's own CI"},
    Known{"TikTokenizer", 131072, "Megatron-LM's default size of a tiktoken vocabulary"},
};

/// Parts of a tokenizer's path, in lower case, by which a published model is known: in the last folder or file that
/// holds one, the longest.
constexpr std::array kPaths = {
    Known{"baichuan2", 125696, "config.json of Baichuan2"},
    Known{"llama-2", 32000, "config.json of Llama 2"},
    Known{"llama2", 32000, "config.json of Llama 2"},
    Known{"llama-3", 128256, "config.json of Llama 3"},
    Known{"llama3", 128256, "config.json of Llama 3"},
    Known{"codellama", 32016, "config.json of Code Llama"},
    Known{"qwen", 151936, "config.json of Qwen2 and Qwen3"},
    Known{"internlm3", 128512, "config.json of InternLM3"},
    Known{"internlm2", 92544, "config.json of InternLM2"},
    Known{"chatglm3", 65024, "config.json of ChatGLM3"},
    Known{"glm-4", 151552, "config.json of GLM-4"},
    Known{"glm4", 151552, "config.json of GLM-4"},
    Known{"mixtral", 32000, "config.json of Mixtral 8x7B"},
    Known{"mistral", 32000, "config.json of Mistral 7B"},
    Known{"deepseek-v2", 102400, "config.json of DeepSeek-V2"},
    Known{"deepseek2", 102400, "config.json of DeepSeek-V2"},
    Known{"deepseek-v3", 129280, "config.json of DeepSeek-V3"},
    Known{"deepseek3", 129280, "config.json of DeepSeek-V3"},
    Known{"phi-3.5-moe", 32064, "config.json of Phi-3.5-MoE"},
    Known{"phi35", 32064, "config.json of Phi-3.5-MoE"},
    Known{"gemma", 256000, "config.json of Gemma"},
    Known{"gemma-3", 262144, "config.json of Gemma 3"},
    Known{"gemma3", 262144, "config.json of Gemma 3"},
    Known{"yi-", 64000, "config.json of Yi"},
    Known{"mamba2", 50288, "config.json of Mamba2"},
    Known{"mamba-2", 50288, "config.json of Mamba2"},
    Known{"grok", 131072, "the release of Grok-1"},
    Known{"gpt-oss", 201088, "config.json of gpt-oss"},
    Known{"bloom", 250880, "config.json of BLOOM"},
    Known{"seed-oss", 155136, "config.json of Seed-OSS"},
    Known{"nemotron", 131072, "config.json of Nemotron-H and Nemotron 3"},
    Known{"baichuan", 64000, "config.json of Baichuan"},
    Known{"internlm", 103168, "config.json of InternLM"},
    Known{"minicpm3", 73448, "config.json of MiniCPM3"},
    Known{"minicpm", 122753, "config.json of MiniCPM"},
    Known{"kimi-k2", 163840, "config.json of Kimi K2"},
};

/// Vocabularies of published models: a padding multiple in the thousands was made for one of them.
constexpr std::array<std::int64_t, 9> kPublished = {128256, 151936, 152064, 129280, 102400,
                                                    131072, 65024,  151552, 64000};
constexpr std::int64_t kOrdinaryMultiple = 4096;
constexpr std::int64_t kUnknownModel = 32000;

/// The published model that a path names; size 0: none.
Known named_by(std::string_view path) {
  while (!path.empty()) {
    const std::size_t slash = path.rfind('/');
    const std::string_view part = slash == std::string_view::npos ? path : path.substr(slash);
    Known best{};
    for (const Known& known : kPaths)
      if (known.key.size() > best.key.size() && part.find(known.key) != std::string_view::npos) best = known;
    if (best.size > 0) return best;
    path.remove_suffix(part.size());
  }
  return {};
}

Known looked_up(const Draft& draft, std::string_view tokenizer) {
  const Vocabulary& vocabulary = draft.run.model.vocabulary;
  const std::string path = lower_case(vocabulary.tokenizer_path);
  if (const Known named = named_by(path); named.size > 0) return named;
  for (const Known& known : kTokenizers)
    if (known.key == tokenizer) return known;
  const std::int64_t multiple = vocabulary.multiple * draft.run.parallel.tensor;
  if (vocabulary.multiple_given && multiple > kOrdinaryMultiple) {
    for (const std::int64_t size : kPublished)
      if (size % multiple == 0) return {tokenizer, size, "the published vocabulary that the padding divides"};
  }
  if (tokenizer == "PretrainedFromHF") return {tokenizer, kUnknownModel, "a guess: nothing says which model it is"};
  return {};
}

}  // namespace

Problem settle_vocabulary(Draft& draft, Notes& notes) {
  Vocabulary& vocabulary = draft.run.model.vocabulary;
  const std::int64_t tensor = draft.run.parallel.tensor;
  if (vocabulary.padded > 0) {
    if (vocabulary.padded % tensor != 0)
      return RunProblem{"padded-vocab-size",
                        fmt::format("{} does not divide over {} tensor ranks", vocabulary.padded, tensor)};
    if (vocabulary.padded < vocabulary.size && !draft.recorded)
      return RunProblem{"padded-vocab-size",
                        fmt::format("{} are fewer than the {} of --vocab-size", vocabulary.padded, vocabulary.size)};
    return std::nullopt;
  }
  std::int64_t size = vocabulary.size;
  if (size == 0) {
    const bool bert = draft.run.model.kind == ModelClass::bert || draft.run.model.kind == ModelClass::t5;
    const std::string tokenizer = !vocabulary.tokenizer.empty() ? vocabulary.tokenizer
                                  : bert                        ? "BertWordPieceLowerCase"
                                                                : "GPT2BPETokenizer";
    const Known known = looked_up(draft, tokenizer);
    if (known.size == 0)
      return RunProblem{"tokenizer-type",
                        fmt::format("the vocabulary of {} is not known; give --vocab-size", quoted(tokenizer))};
    size = known.size;
    notes.push_back(fmt::format("vocabulary of {} taken as {} ({}); --vocab-size would say", quoted(tokenizer), size,
                                known.source));
  }
  // It adds the end of a document to the ids it is given.
  if (vocabulary.size > 0 && vocabulary.tokenizer == "NullTokenizer") ++size;
  const std::int64_t multiple = vocabulary.multiple * tensor;  // at most 2^44
  vocabulary.padded = (size + vocabulary.extra_ids + multiple - 1) / multiple * multiple;
  return std::nullopt;
}

}  // namespace tidemark::estimate

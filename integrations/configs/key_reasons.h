#pragma once
// Why a key has no bytes, in the words that the tables of all frameworks share.

#include <string_view>

namespace tidemark::configs {

inline constexpr std::string_view kCheckpoints = "checkpoints";
inline constexpr std::string_view kContextParts = "how context ranks exchange their parts";
inline constexpr std::string_view kData = "data";
inline constexpr std::string_view kEvaluation = "evaluation runs the forward pass alone";
inline constexpr std::string_view kInference = "only inference";
inline constexpr std::string_view kKernels = "kernels: the same tensors";
inline constexpr std::string_view kLearningRate = "learning rate";
inline constexpr std::string_view kLogging = "logging";
inline constexpr std::string_view kLoop = "training loop";
inline constexpr std::string_view kNumbers = "the numbers, not their sizes";
inline constexpr std::string_view kProfiling = "logging or profiling";
inline constexpr std::string_view kRotary = "rotary tables";
inline constexpr std::string_view kRouting = "routing; the share of tokens is modelled by its quantile";
inline constexpr std::string_view kSeeds = "seeds";
inline constexpr std::string_view kStartingValues = "starting values";
inline constexpr std::string_view kSteps = "the optimizer's steps";
inline constexpr std::string_view kTarget = "names the class";
inline constexpr std::string_view kTokenizer = "the tokenizer's files";

}  // namespace tidemark::configs

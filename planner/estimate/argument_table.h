#pragma once
// From an argument set as the frameworks take it to a TrainingRun: every argument is used, known not to matter for
// memory, or reported.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "planner/estimate/training_run.h"

namespace tidemark::estimate {

/// One argument as given: `--num-layers 32` is {"num-layers", "32"}; a switch without value has an empty `value` and
/// `is_switch`. Lists keep their items joined with one space. `place`: `file:line`, for messages.
struct Argument {
  std::string name;  ///< without leading dashes, underscores as dashes
  std::string value;
  bool is_switch = false;
  std::string place;
  std::string key;               ///< what a configuration file calls it: `model.num_layers`; empty: it is an argument
  std::int32_t unsure_line = 0;  ///< its value is a default, and this line may set another; 0: nothing may
};

/// Something beside the arguments that may hold more of them, or other ones.
struct UnreadWords {
  std::string place;
  std::string what;  ///< what it is and what became of it, for a message
};

struct ArgumentSet {
  std::vector<Argument> arguments;    ///< as they come; of equal names the last counts, as in argparse
  std::vector<Argument> environment;  ///< NAME and value of environment variables set beside them
  std::vector<UnreadWords> unread;    ///< each rules out that the run is understood
};

/// Hints that are not arguments.
struct RunHints {
  Platform platform;  ///< framework, accelerator, devices, software line; environment is added to it
  bool bert = false;  ///< the script is pretrain_bert.py (no argument tells it from GPT)
  bool t5 = false;    ///< the script is pretrain_t5.py
  /// The arguments are the record of a run that did start: where layers do not divide over stages, what makes them
  /// divide was left out of the record and is inferred; a number of devices that eight cannot be is not.
  bool recorded = false;
};

enum class Standing : std::uint8_t { used, no_effect, not_understood };

/// One argument and what was made of it, with the reason where it has no effect or is not understood.
struct JudgedArgument {
  std::string name;  ///< empty: `reason` and `hint` are of the whole file, or of words that no argument was made of
  std::string place;
  Standing standing = Standing::used;
  std::string_view reason;
  std::string key;   ///< Argument::key
  std::string said;  ///< what the file sets the key to; of a launch script empty
  std::string hint;  ///< behind the reason: ` (did you mean model.num_layers?)`; empty: nothing
};

struct ImportedRun {
  TrainingRun run;
  std::vector<JudgedArgument> judged;  ///< in the order given
  std::vector<std::string> notes;      ///< assumptions made, e.g. the vocabulary of a tokenizer no argument sizes
  std::size_t lost = 0;                ///< the first notes: text that may hold arguments and was left out
};

/// Why an argument is not understood that no row of the table describes.
inline constexpr std::string_view kUnknownArgument = "unknown argument";
/// Of `--no-swiglu`: neither framework has an opposite of every switch, and argparse ends the run over one.
inline constexpr std::string_view kNoSuchOpposite =
    "neither framework has it: what it would turn off is off unless it is given";
/// Of a configuration file's key that no table has.
inline constexpr std::string_view kUnknownKey = "unknown key";

/// Errors (bad_input): an argument with a value that is none of its own (`place: what, and what would be right`), sizes
/// that do not divide, a job whose memory is not modelled, with the argument that says so. Thread-safe, pure.
[[nodiscard]] Result<ImportedRun> import_run(const ArgumentSet& set, const RunHints& hints);

/// What may follow an argument on a command line. Of an unknown one nobody knows: a list.
enum class Takes : std::uint8_t { nothing, value, list };
[[nodiscard]] Takes takes(std::string_view name);

/// The table has the argument, by its name or as one of a family.
[[nodiscard]] bool is_known(std::string_view name);

/// Its value decides bytes.
[[nodiscard]] bool is_used(std::string_view name);

/// MindSpeed-LLM has the argument, Megatron-LM has not.
[[nodiscard]] bool is_of_mindspeed(std::string_view name);

/// Every argument known, for docs and near-miss suggestions, in byte order.
[[nodiscard]] std::vector<std::string_view> known_arguments();

}  // namespace tidemark::estimate

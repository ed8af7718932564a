#pragma once
// Keys of a configuration file on their way to an estimate: every one is used, known not to matter, or reported, and
// what is used becomes arguments that remember the key and the line.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "integrations/configs/config_keys.h"
#include "integrations/configs/key_rule.h"
#include "planner/estimate/argument_table.h"

namespace tidemark::configs {

/// A table, and what becomes of keys it does not have: the argument of that name, or nothing.
struct KeyTable {
  std::span<const KeyRule> rules;
  std::optional<std::string> (*argument_of)(std::string_view path) = nullptr;
  /// More names that a misspelt key may have meant.
  std::vector<std::string> (*more_names)() = nullptr;
};

class KeyJudge {
 public:
  /// REQUIRES: `keys` and the table's rules outlive it.
  KeyJudge(std::string_view file_name, const std::vector<ConfigKey>& keys, const KeyTable& table);

  /// Judges every key. Errors: a refused one that is on.
  [[nodiscard]] Status judge();

  /// The last key of a path that has a value, or nullptr.
  [[nodiscard]] const ConfigKey* find(std::string_view path) const;
  [[nodiscard]] bool is_on(std::string_view path) const;
  [[nodiscard]] std::string_view text(std::string_view path, std::string_view otherwise) const;
  /// A whole number. Errors: another value, `file:line: path: what, and what would be right`.
  [[nodiscard]] Result<std::int64_t> count(std::string_view path, std::int64_t least, std::int64_t most,
                                           std::int64_t otherwise) const;

  /// An argument that `key` decides; nullptr: a default of the framework, of no key.
  void add(std::string_view argument, std::string value, const ConfigKey* key);
  /// What decoders that are not described further have in common: RMSNorm, SwiGLU, no biases, rotary positions, no
  /// dropout. Of no key.
  void add_decoder_defaults();
  /// Marks what `key` says as not understood. `reason`: of static storage.
  void doubt(const ConfigKey& key, std::string_view reason);
  /// The same of the file as a whole.
  void doubt_all(std::string_view reason);
  [[nodiscard]] Error wrong(const ConfigKey& key, std::string_view message) const;

  /// The run. Errors: those of estimate::import_run, in the words of the file.
  [[nodiscard]] Result<estimate::ImportedRun> import(const estimate::RunHints& hints) const;

 private:
  struct Given {
    estimate::Argument argument;
    const ConfigKey* key = nullptr;  ///< nullptr: a default of the framework, of no key
    int priority = 0;
  };
  struct Judged {
    estimate::JudgedArgument judged;
    int line = 0;
  };

  [[nodiscard]] const KeyRule* rule_of(std::string_view path) const;
  [[nodiscard]] std::string place_of(const ConfigKey& key) const;
  void note(const ConfigKey& key, estimate::Standing standing, std::string_view reason = {});
  void give(const ConfigKey& key, std::string argument, int priority);
  void unknown(const ConfigKey& key);
  Status apply(const ConfigKey& key, const KeyRule& rule);

  std::string_view file_;
  const std::vector<ConfigKey>& keys_;
  const KeyTable& table_;
  std::map<std::string_view, const KeyRule*> rules_;
  std::map<std::string_view, const ConfigKey*> by_path_;
  std::vector<Given> given_;
  std::map<std::string, std::size_t, std::less<>> chosen_;  ///< argument -> row of given_
  std::vector<Judged> judged_;
  std::vector<std::string> names_;  ///< candidates for a misspelt key
  int hints_ = 0;
};

/// Switched off, or left alone.
[[nodiscard]] bool is_off(const ConfigKey& key, std::string_view off = {});

}  // namespace tidemark::configs

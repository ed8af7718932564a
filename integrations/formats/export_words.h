#pragma once
// The vocabularies of --to: one file each. Private to export_arguments.

#include <initializer_list>
#include <string_view>

#include "integrations/formats/export_arguments.h"

namespace tidemark::formats {

/// Where a word acts, and how its values count.
struct WordPlace {
  std::vector<std::int32_t> layers;  ///< empty: all
  bool counted = false;              ///< values count the first layers of every chunk; otherwise on or off
};

/// Adds words with their settings; what two recompute or swap words share excludes them from each other.
class WordList {
 public:
  WordList(ExportVocabulary& vocabulary, const PlanFile& plan);

  /// Adds nothing if no storage of the job is named. Returns its number, or -1.
  std::int32_t add(std::string_view option, std::string_view value, Action action,
                   std::initializer_list<const char*> storages, std::string_view source, WordPlace place = {});
  /// Whole layers: values count the first of every chunk of the job.
  std::int32_t add_layers(std::string_view option, std::string_view source);
  /// A list per stage: values count the first layers of one chunk of one rank. Empty `storages`: whole layers;
  /// otherwise storages of dense layers, and nothing is added where the chunk has none.
  void add_stage(std::string_view option, std::string_view value, std::initializer_list<const char*> storages,
                 std::string_view source, std::int32_t rank, std::int32_t chunk);
  void needs(std::int32_t word, std::int32_t other);
  void exclude(std::int32_t word, std::int32_t other);
  /// Words that move the same storage exclude each other; so do whole layers and any other word where `layers_alone`.
  void exclude_overlaps(bool layers_alone);

  [[nodiscard]] bool has(std::string_view storage) const;

 private:
  std::int32_t push(ExportWord word, search::Setting setting);
  /// The first `count` layers of every chunk (or of one), ascending.
  [[nodiscard]] std::vector<std::int32_t> first_layers(std::int32_t count, std::int32_t rank, std::int32_t chunk) const;
  [[nodiscard]] std::int32_t most_layers(std::int32_t rank, std::int32_t chunk) const;

  ExportVocabulary& vocabulary_;
  const PlanFile& plan_;
};

void add_megatron_words(ExportVocabulary& vocabulary, const PlanFile& plan);
void add_mindspeed_words(ExportVocabulary& vocabulary, const PlanFile& plan);
void add_mindformers_words(ExportVocabulary& vocabulary, const PlanFile& plan);

[[nodiscard]] std::string argument_lines(const ExportVocabulary& vocabulary, const search::SettingValues& values,
                                         const PlanFile& plan);
[[nodiscard]] std::string mindformers_yaml(const ExportVocabulary& vocabulary, const search::SettingValues& values,
                                           const PlanFile& plan);

}  // namespace tidemark::formats

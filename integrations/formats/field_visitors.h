#pragma once
// Writer and reader of the tables in spec_fields.h. Private to formats.

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "core/time_term.h"
#include "integrations/formats/field_ranges.h"
#include "integrations/formats/json_node.h"
#include "integrations/formats/json_text.h"
#include "integrations/formats/spec_fields.h"

namespace tidemark::formats {

template <class T>
void write_object(JsonText& json, const T& value);
template <class T>
void read_object(const JsonNode& node, T& value);

class FieldWriter {
 public:
  explicit FieldWriter(JsonText& json) : json_(json) {}

  template <class T>
  void operator()(std::string_view name, const T& value) {
    json_.key(name);
    json_.value(value);
  }
  template <class T, class Words>
  void word(std::string_view name, const T& value, const Words& words) {
    json_.key(name);
    json_.value(words[static_cast<std::size_t>(value)]);
  }
  template <class T>
  void object(std::string_view name, const T& value) {
    json_.key(name);
    write_object(json_, value);
  }
  template <class T>
  void later(std::string_view name, const T& value) {
    (*this)(name, value);
  }
  template <class T>
  void unless_default(std::string_view name, const T& value, const T& standard) {
    if (value != standard) (*this)(name, value);
  }
  template <class T, class Words>
  void word_unless_default(std::string_view name, const T& value, const Words& words) {
    if (value != T{}) word(name, value, words);
  }
  template <class T>
  void object_unless_default(std::string_view name, const T& value) {
    if (value != T{}) object(name, value);
  }
  void layers(std::string_view name, const std::vector<graph_build::LayerKind>& layers) {
    json_.key(name);
    json_.open_list();
    for (const graph_build::LayerKind kind : layers) json_.value(kLayerWords[static_cast<std::size_t>(kind)]);
    json_.close_list();
  }
  /// Lists of [rows, columns, rate].
  void tiles(std::string_view name, const std::vector<MatmulTile>& tiles) {
    json_.key(name);
    json_.open_list();
    for (const MatmulTile& tile : tiles) {
      json_.open_list();
      json_.value(tile.rows);
      json_.value(tile.columns);
      json_.value(tile.relative_rate);
      json_.close_list();
    }
    json_.close_list();
  }
  void terms(std::string_view name, const TimeTerms& terms) {
    json_.key(name);
    json_.open_list();
    for (const std::string_view term : terms.names()) json_.value(term);
    json_.close_list();
  }
  /// slots[rank][chunk] as lists of [kind, number].
  void slots(std::string_view name, const std::vector<std::vector<std::vector<graph_build::Slot>>>& slots) {
    json_.key(name);
    json_.open_list();
    for (const auto& rank : slots) {
      json_.open_list();
      for (const auto& chunk : rank) {
        json_.open_list();
        for (const graph_build::Slot& slot : chunk) {
          json_.open_list();
          json_.value(kSlotWords[static_cast<std::size_t>(slot.kind)]);
          json_.value(slot.layer);
          json_.close_list();
        }
        json_.close_list();
      }
      json_.close_list();
    }
    json_.close_list();
  }

 private:
  JsonText& json_;
};

class FieldReader {
 public:
  explicit FieldReader(const JsonNode& node) : node_(node) {}

  void operator()(std::string_view name, std::int32_t& value) {
    using Limits = std::numeric_limits<std::int32_t>;
    const WholeRange range = whole_range_of(name);
    value = static_cast<std::int32_t>(node_.at(name).integer(std::max<std::int64_t>(range.least, Limits::min()),
                                                             std::min<std::int64_t>(range.most, Limits::max())));
  }
  void operator()(std::string_view name, std::int64_t& value) {
    const WholeRange range = whole_range_of(name);
    value = node_.at(name).integer(range.least, range.most);
    if (name == "alignment_bytes" && !std::has_single_bit(static_cast<std::uint64_t>(value)))
      node_.at(name).wrong(fmt::format("is {}; it must be a power of two, such as 512", value));
  }
  void operator()(std::string_view name, std::uint64_t& value) { value = node_.at(name).unsigned_integer(); }
  void operator()(std::string_view name, double& value) { value = node_.at(name).number(real_range_of(name)); }
  void operator()(std::string_view name, bool& value) { value = node_.at(name).boolean(); }
  void operator()(std::string_view name, std::string& value) { value = node_.at(name).text(); }
  template <class T, class Words>
  void word(std::string_view name, T& value, const Words& words) {
    value = static_cast<T>(node_.at(name).word(words));
  }
  template <class T>
  void object(std::string_view name, T& value) {
    read_object(node_.at(name), value);
  }
  /// A member younger than the format: plans written before it lack it and keep the default.
  template <class T>
  void later(std::string_view name, T& value) {
    if (node_.has(name)) (*this)(name, value);
  }
  /// A member that is written only where it is not `standard`.
  template <class T>
  void unless_default(std::string_view name, T& value, const T& standard) {
    value = standard;
    later(name, value);
  }
  template <class T, class Words>
  void word_unless_default(std::string_view name, T& value, const Words& words) {
    value = T{};
    if (node_.has(name)) word(name, value, words);
  }
  template <class T>
  void object_unless_default(std::string_view name, T& value) {
    value = T{};
    if (node_.has(name)) object(name, value);
  }
  void layers(std::string_view name, std::vector<graph_build::LayerKind>& layers) {
    const JsonNode list = node_.at(name);
    layers.resize(list.size());
    for (std::size_t i = 0; i < layers.size(); ++i)
      layers[i] = static_cast<graph_build::LayerKind>(list.item(i).word(kLayerWords));
  }
  void tiles(std::string_view name, std::vector<MatmulTile>& tiles) {
    const JsonNode list = node_.at(name);
    if (list.size() < 1 || list.size() > kMostTiles)
      list.wrong(fmt::format("has {} tiles; a device has 1 to {}", list.size(), kMostTiles));
    tiles.resize(list.size());
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      const JsonNode tile = list.item(i);
      tiles[i] = {.rows = tile.item(0).integer(1, kMostTileSide),
                  .columns = tile.item(1).integer(1, kMostTileSide),
                  .relative_rate = tile.item(2).number({.most = 1, .open = true})};
    }
  }
  void terms(std::string_view name, TimeTerms& terms) {
    const JsonNode list = node_.at(name);
    terms = {};
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::optional<TimeTerm> term = time_term_of(list.item(i).text());
      if (!term) return list.item(i).wrong("is no term of step time; docs/formats.md lists them");
      terms.add(*term);
    }
  }
  void slots(std::string_view name, std::vector<std::vector<std::vector<graph_build::Slot>>>& slots) {
    const JsonNode ranks = node_.at(name);
    slots.resize(ranks.size());
    for (std::size_t r = 0; r < slots.size(); ++r) {
      const JsonNode chunks = ranks.item(r);
      slots[r].resize(chunks.size());
      for (std::size_t c = 0; c < slots[r].size(); ++c) read_chunk(chunks.item(c), slots[r][c]);
    }
  }

 private:
  static void read_chunk(const JsonNode& list, std::vector<graph_build::Slot>& slots) {
    slots.resize(list.size());
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const JsonNode slot = list.item(i);
      slots[i].kind = static_cast<graph_build::Slot::Kind>(slot.item(0).word(kSlotWords));
      slots[i].layer = static_cast<std::int32_t>(slot.item(1).integer(-1, std::numeric_limits<std::int32_t>::max()));
    }
  }

  const JsonNode& node_;
};

template <class T>
void write_object(JsonText& json, const T& value) {
  json.open_object();
  FieldWriter writer(json);
  walk(writer, value);
  json.close_object();
}

template <class T>
void read_object(const JsonNode& node, T& value) {
  FieldReader reader(node);
  walk(reader, value);
}

}  // namespace tidemark::formats

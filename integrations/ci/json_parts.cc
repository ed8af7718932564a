#include "integrations/ci/json_parts.h"

#include "integrations/ci/safe_text.h"

namespace tidemark::ci {

void JsonParts::text(std::string_view name, std::string_view value) {
  json_.key(name);
  json_.value(std::string_view(with_replacements(value)));
}

void JsonParts::null(std::string_view name) {
  json_.key(name);
  json_.null();
}

void JsonParts::text_or_null(std::string_view name, std::string_view value) {
  value.empty() ? null(name) : text(name, value);
}

void JsonParts::bytes(std::string_view name, const std::optional<Bytes>& value) {
  value ? number(name, *value) : null(name);
}

void JsonParts::texts(std::string_view name, const std::vector<std::string>& values) {
  list(name, values, [this](const std::string& value) { json_.value(std::string_view(with_replacements(value))); });
}

void JsonParts::members(const budget::Control& control) {
  text("file", control.file);
  number("line", control.line);
  text("text", control.text);
}

void JsonParts::control(std::string_view name, const budget::Control& control) {
  if (control.file.empty()) return null(name);
  object(name, [&] { members(control); });
}

void JsonParts::controls(const std::vector<budget::Control>& controls) {
  list("controls", controls, [this](const budget::Control& control) { object([&] { members(control); }); });
}

void JsonParts::changed(const std::optional<ChangedControl>& changed) {
  if (!changed) return null("changed");
  const auto members_of = [this](const ChangedLine& line) {
    control("now", line.now);
    text_or_null("before", line.before);
  };
  object("changed", [&] {
    members_of(changed->line);
    list("others", changed->others, [&](const ChangedLine& other) { object([&] { members_of(other); }); });
  });
}

void JsonParts::categories(std::string_view name, const budget::CategoryBytes& bytes) {
  object(name, [&] {
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (bytes[i] != 0) number(budget::kCategoryWords[i], bytes[i]);
  });
}

void JsonParts::phases(const budget::PhaseBytes& bytes) {
  object("by_phase", [&] {
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (bytes[i]) number(budget::kPhaseWords[i], *bytes[i]);
  });
}

void JsonParts::contributors(std::string_view name, const std::vector<budget::HeldStorage>& storages) {
  list(name, storages, [this](const budget::HeldStorage& storage) {
    row([&] {
      text("storage", storage.name);
      text_or_null("module", storage.module);
      text("category", budget::word_of(storage.category));
      text_or_null("layers", storage.layers);
      number("count", storage.count);
      number("bytes", storage.bytes);
      controls(storage.controls);
    });
  });
}

void JsonParts::ranks(std::string_view name, const std::vector<budget::RankHoldings>& ranks) {
  list(name, ranks, [this](const budget::RankHoldings& rank) {
    row([&] {
      number("rank", rank.rank);
      text_or_null("place", rank.place);
      number("peak_bytes", rank.peak_bytes);
      text_or_null("peak_phase", rank.peak_phase ? budget::word_of(*rank.peak_phase) : std::string_view());
      text_or_null("peak_at", rank.peak_at);
      bytes("host_bytes", rank.host_bytes);
      categories("by_category", rank.by_category);
      number("reserve_left_out_bytes", rank.reserve_left_out_bytes);
      phases(rank.by_phase);
    });
  });
}

void JsonParts::storages_grown(const std::vector<budget::StorageGrowth>& storages) {
  list("storages", storages, [this](const budget::StorageGrowth& storage) {
    row([&] {
      text("change", word_of(storage.kind));
      text("storage", storage.name);
      text("category", budget::word_of(storage.category));
      number("count_before", storage.count_before);
      number("count_after", storage.count_after);
      number("before_bytes", storage.before_bytes);
      number("after_bytes", storage.after_bytes);
      controls(storage.controls);
    });
  });
}

void JsonParts::growth(std::string_view name, const budget::Growth& growth) {
  object(name, [&] {
    number("before_bytes", growth.before_bytes);
    number("after_bytes", growth.after_bytes);
    number("highest_before_bytes", growth.highest_before_bytes);
    number("highest_after_bytes", growth.highest_after_bytes);
    storages_grown(growth.storages);
    list("ranks", growth.ranks, [this](const budget::RankGrowth& rank) {
      row([&] {
        number("rank", rank.rank);
        bytes("before_bytes", rank.before_bytes);
        bytes("after_bytes", rank.after_bytes);
        bytes("host_before_bytes", rank.host_before_bytes);
        bytes("host_after_bytes", rank.host_after_bytes);
        categories("category_before", rank.category_before);
        categories("category_after", rank.category_after);
        storages_grown(rank.storages);
      });
    });
  });
}

void JsonParts::remedy(std::string_view name, const std::optional<budget::Remedy>& remedy) {
  if (!remedy) return null(name);
  object(name, [&] {
    number("sought", remedy->is_sought);
    number("clears", remedy->clears);
    number("proven", remedy->is_proven);
    number("peak_bytes", remedy->peak_bytes);
    remedy->step_percent ? number("step_percent_modelled", *remedy->step_percent) : null("step_percent_modelled");
    text("reason", remedy->reason);
    list("edits", remedy->edits, [this](const budget::Edit& edit) {
      object([&] {
        text("text", edit.text);
        number("saved_bytes", edit.saved_bytes);
        texts("flags", edit.flags);
        control("where", edit.where);
      });
    });
  });
}

}  // namespace tidemark::ci

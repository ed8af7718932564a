#include "integrations/formats/session_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "integrations/formats/csv_table.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

using swap::SessionEvent;
using Kind = SessionEvent::Kind;
using Note = SessionEvent::Note;

constexpr std::int64_t kVersion = 1;
constexpr std::string_view kHead = "tidemark_session", kLoop = "loop", kMaySpill = "may_spill";
constexpr std::int64_t kMostId = std::numeric_limits<std::int32_t>::max() - 1;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

constexpr std::array<std::string_view, 5> kNotes = {"", "again", "planned", "last", "handed_over"};

/// A number of an event: its key, how large it may be, and where it is. -1 is none; it is not written.
struct Field {
  std::string_view key;
  std::int64_t most = kMostId;
  std::int64_t (*get)(const SessionEvent&) = nullptr;
  void (*set)(SessionEvent&, std::int64_t) = nullptr;
  bool is_hexadecimal = false;
};

template <auto Member, std::int64_t kNothing = -1>
constexpr Field field(std::string_view key, std::int64_t most = kMostId, bool is_hexadecimal = false) {
  return {.key = key,
          .most = most,
          .get =
              [](const SessionEvent& event) {
                const auto value = static_cast<std::int64_t>(event.*Member);
                return value == kNothing ? -1 : value;
              },
          .set =
              [](SessionEvent& event, std::int64_t value) {
                event.*Member = static_cast<std::remove_reference_t<decltype(event.*Member)>>(value);
              },
          .is_hexadecimal = is_hexadecimal};
}

const std::array<Field, 9> kFields = {field<&SessionEvent::step, 0>("step", kMost),
                                      field<&SessionEvent::op>("op"),
                                      field<&SessionEvent::until>("until"),
                                      field<&SessionEvent::storage>("storage"),
                                      field<&SessionEvent::saved>("saved"),
                                      field<&SessionEvent::block>("block"),
                                      field<&SessionEvent::address, 0>("at", kMost, true),
                                      field<&SessionEvent::bytes, 0>("bytes", kMostBytes),
                                      field<&SessionEvent::stream>("stream")};

struct Word {
  std::string_view name;
  std::vector<std::string_view> needed;   ///< keys
  std::vector<std::string_view> allowed;  ///< besides
  Note note = Note::none;                 ///< that it may have
};

/// By kind.
const std::array<Word, 21>& words() {
  static const std::array<Word, 21> kWords = {{
      {"begin_step", {}, {"stream"}},
      {"op", {"op"}, {"stream"}},
      {"take", {"storage", "block"}, {"at", "bytes", "stream"}},
      {"adopt", {"storage", "block"}, {"at", "bytes", "stream"}},
      {"keep", {"op"}, {}},
      {"save", {"saved"}, {"storage", "op", "until"}},
      {"use", {"saved"}, {"stream"}, Note::again},
      {"free", {"saved"}, {}},
      {"change", {"block"}, {"stream"}, Note::planned},
      {"make_room", {"bytes"}, {"stream"}},
      {"end_step", {}, {"stream"}},
      {"close", {}, {}},
      {"used", {}, {"block", "at"}, Note::handed_over},
      {"failed", {}, {}},
      {"rebuild", {"step", "op"}, {"stream"}, Note::last},
      {"source", {"storage", "block"}, {"at"}},
      {"made", {"storage", "block"}, {"at", "bytes"}},
      {"room", {"storage"}, {"block", "at", "bytes", "stream"}},
      {"release", {"block"}, {"stream"}},
      {"copy_out", {"storage"}, {"at", "bytes"}},
      {"copy_in", {"storage"}, {"at", "bytes"}},
  }};
  return kWords;
}

const Word& word_of(Kind kind) {
  return words()[static_cast<std::size_t>(kind)];
}

bool contains(const std::vector<std::string_view>& keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

/// The blank-separated words of a line, one by one.
std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

/// `key=12`. Errors: no number of that key; one out of range.
Result<std::int64_t> read_number(std::string_view word, std::string_view key, std::int64_t most) {
  if (!word.starts_with(key) || word.substr(key.size(), 1) != "=")
    return bad_input(fmt::format("{} stands where {}=... must", shown(word), key));
  return read_whole(key, word.substr(key.size() + 1), 0, most);
}

Status read_head(std::string_view line, swap::SessionLog& log) {
  if (next_word(line) != kHead) return bad_input("this is no log of a session, which begins with 'tidemark_session'");
  const auto version = read_number(next_word(line), "version", kMostId);
  if (!version) return version.error();
  if (version.value() != kVersion)
    return bad_input(fmt::format("the log has version {}; {} is read", version.value(), kVersion));
  const auto bytes = read_number(next_word(line), "host_bytes", kMostBytes);
  if (!bytes) return bytes.error();
  log.host_bytes = bytes.value();
  return {};
}

/// Ops come in order.
Status read_loop(std::string_view line, swap::FollowedLoop& loop) {
  const auto op = read_number(next_word(line), "op", kMostId);
  if (!op) return op.error();
  const auto part = read_number(next_word(line), "part", kMostId);
  if (!part) return part.error();
  const auto told = read_number(next_word(line), "told", 1);
  if (!told) return told.error();
  if (op.value() != static_cast<std::int64_t>(loop.part_of_op.size()))
    return bad_input(fmt::format("op {} comes where {} must", op.value(), loop.part_of_op.size()));
  loop.part_of_op.push_back(static_cast<std::int32_t>(part.value()));
  loop.is_told.push_back(told.value() != 0);
  return {};
}

Status read_may_spill(std::string_view line, swap::FollowedLoop& loop) {
  const auto storage = read_number(next_word(line), "storage", kMostId);
  if (!storage) return storage.error();
  loop.may_spill.push_back(static_cast<StorageId>(storage.value()));
  return {};
}

Status read_field(std::string_view given, const Word& kind, SessionEvent& event) {
  const std::string_view key = given.substr(0, given.find('='));
  const auto found = std::ranges::find(kFields, key, &Field::key);
  if (found == kFields.end() || (!contains(kind.needed, key) && !contains(kind.allowed, key)))
    return bad_input(fmt::format("'{}' has no {}", kind.name, shown(key)));
  if (found->get(event) != -1) return bad_input(fmt::format("'{}' is there twice", key));
  const auto number = read_number(given, key, found->most);
  if (!number) return number.error();
  found->set(event, number.value());
  return {};
}

Result<SessionEvent> read_event(std::string_view line) {
  const std::string_view name = next_word(line);
  const auto found = std::ranges::find(words(), name, &Word::name);
  if (found == words().end()) return bad_input(fmt::format("{} is no event of a session", shown(name)));
  SessionEvent event{.kind = static_cast<Kind>(found - words().begin())};
  const std::string_view note = kNotes[static_cast<std::size_t>(found->note)];
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line)) {
    if (word == note) {
      event.note = found->note;
    } else if (Status s = read_field(word, *found, event); !s) {
      return s.error();
    }
  }
  for (const Field& one : kFields)
    if (contains(found->needed, one.key) && one.get(event) == -1)
      return bad_input(fmt::format("'{}' needs {}=...", name, one.key));
  return event;
}

Status read_line(std::string_view line, std::size_t number, swap::SessionLog& log) {
  if (number == 1) return read_head(line, log);
  std::string_view rest = line;
  const std::string_view word = next_word(rest);
  if (word == kLoop || word == kMaySpill) {
    if (!log.events.empty()) return bad_input(fmt::format("'{}' stands behind events", word));
    return word == kLoop ? read_loop(rest, log.loop) : read_may_spill(rest, log.loop);
  }
  Result<SessionEvent> event = read_event(line);
  if (!event) return event.error();
  log.events.push_back(event.value());
  return {};
}

}  // namespace

std::string write_session_log_head(Bytes host_bytes, const swap::FollowedLoop& loop) {
  std::string text = fmt::format("{} version={} host_bytes={}\n", kHead, kVersion, host_bytes);
  for (std::size_t op = 0; op < std::max(loop.part_of_op.size(), loop.is_told.size()); ++op)
    text += fmt::format("{} op={} part={} told={}\n", kLoop, op, loop.part_of_op.empty() ? 0 : loop.part_of_op[op],
                        loop.is_told.empty() || loop.is_told[op] ? 1 : 0);
  for (const StorageId storage : loop.may_spill) text += fmt::format("{} storage={}\n", kMaySpill, row(storage));
  return text;
}

std::string write_session_event(const SessionEvent& event) {
  std::string line(word_of(event.kind).name);
  for (const Field& one : kFields) {
    const std::int64_t value = one.get(event);
    if (value == -1) continue;
    line += one.is_hexadecimal ? fmt::format(" {}=0x{:x}", one.key, value) : fmt::format(" {}={}", one.key, value);
  }
  if (event.note != Note::none) line.append(" ").append(kNotes[static_cast<std::size_t>(event.note)]);
  return line + "\n";
}

Result<swap::SessionLog> read_session_log(std::string_view text, std::string_view file_name) {
  swap::SessionLog log;
  std::size_t number = 0;
  while (!text.empty() || number == 0) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (Status s = read_line(line, ++number, log); !s)
      return bad_input(fmt::format("{}:{}: {}", file_name, number, s.error().message));
  }
  return log;
}

}  // namespace tidemark::formats

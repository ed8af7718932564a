#include "integrations/cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <utility>

namespace tidemark::cli {
namespace {

constexpr std::chrono::seconds kPatience{1};
constexpr int kWidth = 30;
constexpr std::string_view kWipe = "\r\x1b[K";  // back to the first column and erase to the end: moves, not colours

void write(std::string_view text) {
  // A bar that cannot be drawn is not worth an error.
  if (std::fwrite(text.data(), 1, text.size(), stderr) == text.size()) std::fflush(stderr);
}

}  // namespace

std::string progress_line(const std::string& label, int done, int total) {
  const int filled = std::clamp(done, 0, total) * kWidth / total;
  return fmt::format("{} [{:#<{}}{:.<{}}] {}/{}", label, "", filled, "", kWidth - filled, done, total);
}

Progress::Progress(std::string label, bool drawn, Now now)
    : label_(std::move(label)), drawn_(drawn), now_(std::move(now)) {}

Progress::~Progress() {
  if (watcher_.joinable()) {
    watcher_.request_stop();
    watcher_.join();
  }
  if (visible_) write(kWipe);
}

void Progress::watch(int total) {
  if (!drawn_ || total < 1) return;
  total_ = total;
  is_watched_ = true;
  try {
    watcher_ = std::jthread([this](const std::stop_token& stop) {
      std::unique_lock lock(mutex_);
      while (!wake_.wait_for(lock, stop, kPatience, [&stop] { return stop.stop_requested(); })) draw();
    });
  } catch (const std::system_error&) {  // no thread is left: the bar is drawn where a part is done
  }
}

void Progress::wipe() {
  const std::lock_guard lock(mutex_);
  if (visible_) write(kWipe);
}

void Progress::update(int done, int total) {
  if (!drawn_ || total < 1) return;
  const std::lock_guard lock(mutex_);
  done_ = done;
  total_ = total;
  if (now_() - begin_ >= kPatience) draw();
}

void Progress::draw() {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now_() - begin_).count();
  visible_ = true;
  write(std::string(kWipe) + progress_line(label_, done_, total_) +
        (is_watched_ ? fmt::format(", {} s", seconds) : ""));
}

void Progress::update_share(double share) {
  const auto percent = static_cast<int>(100 * std::clamp(share, 0.0, 1.0));
  int before = percent_;
  while (percent > before)
    if (percent_.compare_exchange_weak(before, percent)) return update(percent, 100);
}

}  // namespace tidemark::cli

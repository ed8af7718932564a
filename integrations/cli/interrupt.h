#pragma once
// Ctrl-C as a question: while a search listens, an interrupt asks it to end with the best it has; another one ends the
// program as before.

namespace tidemark::cli {

/// Listens as long as it is there. One at a time.
class InterruptListener {
 public:
  InterruptListener();
  ~InterruptListener();
  InterruptListener(const InterruptListener&) = delete;
  InterruptListener& operator=(const InterruptListener&) = delete;

  /// An interrupt came since the first listener began. From any thread.
  [[nodiscard]] static bool heard();

 private:
  bool listens_ = false;
};

}  // namespace tidemark::cli

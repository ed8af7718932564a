#pragma once
// The markup of a view on a canvas: heading, help, legend, buttons that stand for keys, the range shown, the canvas.
// Its script finds the parts by the ids that this makes of its name.

#include <span>
#include <string>
#include <string_view>

namespace tidemark::formats {

/// A button that does what a key does on the canvas (picture_script.cc).
struct ViewButton {
  std::string_view key, text;  ///< `ArrowLeft`, `&larr;`
  std::string_view does;       ///< read out behind the view's name; empty: the text says it
};

/// All of it is markup.
struct ViewSection {
  std::string_view name;  ///< `pipeline`: ids NAME-help, NAME-legend, NAME-tools and NAME-range
  std::string_view title, help;
  std::string_view choices;  ///< before the buttons
  std::span<const ViewButton> buttons;
  std::string_view canvas;  ///< its id
  std::string_view label;   ///< read out of the canvas
};

[[nodiscard]] std::string view_html(const ViewSection& view);

}  // namespace tidemark::formats

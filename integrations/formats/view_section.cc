#include "integrations/formats/view_section.h"

#include <fmt/format.h>

#include <iterator>

namespace tidemark::formats {
namespace {

std::string button_html(const ViewSection& view, const ViewButton& button) {
  const std::string label = button.does.empty() ? "" : fmt::format(" aria-label=\"{}: {}\"", view.canvas, button.does);
  return fmt::format("<button type=\"button\" data-key=\"{}\"{}>{}</button>\n", button.key, label, button.text);
}

}  // namespace

std::string view_html(const ViewSection& view) {
  std::string html = fmt::format(
      "<h2>{1}</h2>\n<p class=\"soft\" id=\"{0}-help\">{2}</p>\n<div class=\"legend\" id=\"{0}-legend\"></div>\n"
      "<div class=\"tools\" id=\"{0}-tools\">{3}",
      view.name, view.title, view.help, view.choices);
  for (const ViewButton& button : view.buttons) html += button_html(view, button);
  fmt::format_to(
      std::back_inserter(html),
      "<output id=\"{0}-range\" aria-live=\"polite\"></output></div>\n<div class=\"chart\"><canvas id=\"{1}\" "
      "tabindex=\"0\" role=\"img\" aria-label=\"{2}\"\n aria-describedby=\"{0}-help\"></canvas></div>\n",
      view.name, view.canvas, view.label);
  return html;
}

}  // namespace tidemark::formats

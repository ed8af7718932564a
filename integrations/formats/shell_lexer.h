#pragma once
// The words of a shell script and what stands between them, nothing expanded and nothing executed. Which of them a
// command is made of, its parser says. Private to formats.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark::formats {

/// A word as written, quotes and all: [begin, end) of the script. `NAME=( a b )` keeps its items apart.
struct ShellWord {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_array = false;  ///< the text is `NAME=` or `NAME+=`
  std::vector<ShellWord> items;
};

struct ShellToken {
  enum class Kind : std::uint8_t {
    word,
    redirection,  ///< with its file or here-string as the word
    newline,
    semicolon,
    ends_arm,  ///< `;;`, and with `&` in its text what only some shells have
    ampersand,
    pipe,
    and_then,
    or_else,
    opens,   ///< (
    closes,  ///< )
    end,
  };
  Kind kind = Kind::end;
  ShellWord word;
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct ShellDocument {
  std::size_t at = 0;  ///< of its `<<`
  ShellWord body;
  bool is_open = false;  ///< variables in it are replaced
};

/// What begins and nothing ends: the first of each kind, npos where there is none.
struct ShellUnended {
  std::size_t quote = std::string_view::npos;
  std::size_t bracket = std::string_view::npos;        ///< `${` or `$(`
  std::size_t array = std::string_view::npos;          ///< `NAME=(`
  std::size_t here_document = std::string_view::npos;  ///< its `<<`; to the shell it ends with the script
  std::size_t parenthesis = std::string_view::npos;    ///< a `(` among options: no shell runs that
};

/// Comments are left out; here-documents are passed over with the line that begins them. Quotes and brackets that are
/// never closed reach to the end of the script.
class ShellLexer {
 public:
  explicit ShellLexer(std::string_view script) : script_(script) {}

  /// What comes next; end of the script: end, again and again.
  [[nodiscard]] const ShellToken& peek();
  ShellToken take();
  /// Where a command may begin: `((...))` as one word. False: there is none.
  bool take_arithmetic(ShellWord& word);
  /// What stands behind `[[`, operators and all, without `]]`. False: nothing ends it.
  bool take_test(std::vector<ShellWord>& words);
  /// Whether words may be `NAME=(...)`: before a command and behind `export` and the like.
  void allow_arrays(bool may) { may_be_array_ = may; }
  /// Goes on behind the end of the line.
  void skip_line();

  [[nodiscard]] const ShellUnended& unended() const { return unended_; }
  void note_parenthesis(std::size_t at) { unended_.parenthesis = std::min(unended_.parenthesis, at); }
  /// Here-documents, ascending.
  [[nodiscard]] const std::vector<ShellDocument>& documents() const { return documents_; }

 private:
  struct HereDocument {
    std::size_t begin = 0;
    std::string delimiter;
    bool has_tabs = false;  ///< <<-
    bool is_quoted = false;
  };

  [[nodiscard]] char look(std::size_t ahead = 0) const {
    return at_ + ahead < script_.size() ? script_[at_ + ahead] : '\0';
  }
  bool skip_continuation();
  void skip_blanks();
  void scan();
  void scan_operator();
  void scan_word();
  void scan_redirection(std::size_t begin);
  void skip_here_documents();
  ShellWord word();
  void read_items(ShellWord& array);
  void take_unit();
  bool take_subscript(std::size_t begin);
  struct Next {
    std::size_t from = 1, at = 0;  ///< no other stands between
  };
  std::size_t next(char c, Next& known) const;
  ShellWord test_word(bool is_expression);

  std::string_view script_;
  std::size_t at_ = 0;
  bool is_peeked_ = false;
  ShellToken token_;
  bool may_be_array_ = false;
  bool in_array_ = false;
  std::size_t examined_ = 0;  ///< up to here no `((...))` begins that is not taken
  Next next_bracket_, next_line_;
  ShellUnended unended_;
  std::vector<HereDocument> here_;
  std::vector<ShellDocument> documents_;
};

/// Where one of `characters` stands outside of quotes, `${...}` and `$(...)`, from `at` on; npos: nowhere.
[[nodiscard]] std::size_t find_bare(std::string_view word, std::string_view characters, std::size_t at = 0);

/// `{a,b}` or `{1..3}` outside of quotes: the shell makes several words of it.
[[nodiscard]] bool has_bare_alternatives(std::string_view word);

/// One past what begins at `at` with a quote, `${`, `$(` or a backquote; at + 1 for anything else.
[[nodiscard]] std::size_t end_of_shell_unit(std::string_view script, std::size_t at, bool quoted = false);

}  // namespace tidemark::formats

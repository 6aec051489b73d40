#include "client/cli/line_reader.h"

#include <histedit.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <istream>
#include <utility>

namespace tensord::cli {
namespace {

constexpr int kHistorySize = 10000;

class StreamReader : public LineReader {
 public:
  explicit StreamReader(std::istream& in) : in_(in) {}
  std::optional<std::string> Next(bool) override {
    std::string line;
    if (!std::getline(in_, line)) return std::nullopt;
    if (line.ends_with('\r')) line.pop_back();
    return line;
  }

 private:
  std::istream& in_;
};

class TerminalReader : public LineReader {
 public:
  explicit TerminalReader(Completer complete) : complete_(std::move(complete)) {
    edit_ = el_init("tensorctl", stdin, stdout, stderr);
    history_ = history_init();
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistorySize);
    history(history_, &event, H_SETUNIQUE, 1);
    if (const char* home = std::getenv("HOME")) path_ = std::string(home) + "/.tensorctl_history";
    if (!path_.empty()) history(history_, &event, H_LOAD, path_.c_str());
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_PROMPT, &TerminalReader::Prompt);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_HIST, &::history, history_);
    el_set(edit_, EL_SIGNAL, 1);
    el_set(edit_, EL_ADDFN, "tensorctl-complete", "complete a name", &TerminalReader::Complete);
    el_set(edit_, EL_BIND, "\t", "tensorctl-complete", nullptr);
    el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  }
  ~TerminalReader() override {
    HistEvent event;
    if (!path_.empty()) history(history_, &event, H_SAVE, path_.c_str());
    history_end(history_);
    el_end(edit_);
  }

  std::optional<std::string> Next(bool more) override {
    more_ = more;
    int count = 0;
    const char* line = el_gets(edit_, &count);
    if (line == nullptr || count <= 0) {
      std::fputc('\n', stdout);
      return std::nullopt;
    }
    std::string text(line, static_cast<size_t>(count));
    if (text.ends_with('\n')) text.pop_back();
    if (!text.empty()) {
      HistEvent event;
      history(history_, &event, H_ENTER, text.c_str());
    }
    return text;
  }

 private:
  static TerminalReader* Self(EditLine* edit) {
    TerminalReader* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    return self;
  }

  static char* Prompt(EditLine* edit) {
    static char first[] = ">>> ";
    static char more[] = "... ";
    return Self(edit)->more_ ? more : first;
  }

  // Inserts what all candidates have in common; where that is nothing new, shows them.
  static unsigned char Complete(EditLine* edit, int) {
    const LineInfo* line = el_line(edit);
    const std::string_view text(line->buffer, static_cast<size_t>(line->cursor - line->buffer));
    const std::vector<std::string> words = Self(edit)->complete_(text);
    if (words.empty()) return CC_ERROR;
    size_t common = words[0].size();
    for (const std::string& word : words) {
      const auto end = std::mismatch(words[0].begin(), words[0].end(), word.begin(), word.end()).first;
      common = std::min(common, static_cast<size_t>(end - words[0].begin()));
    }
    size_t typed = 0;
    while (typed < text.size() && (std::isalnum(static_cast<unsigned char>(text[text.size() - 1 - typed])) != 0 ||
                                   text[text.size() - 1 - typed] == '_'))
      ++typed;
    if (common > typed) {
      el_insertstr(edit, words[0].substr(typed, common - typed).c_str());
      return CC_REFRESH;
    }
    if (words.size() == 1) return CC_NORM;
    std::fputc('\n', stdout);
    for (const std::string& word : words) std::printf("%s  ", word.c_str());
    std::fputc('\n', stdout);
    return CC_REDISPLAY;
  }

  Completer complete_;
  EditLine* edit_ = nullptr;
  History* history_ = nullptr;
  std::string path_;
  bool more_ = false;
};

}  // namespace

std::unique_ptr<LineReader> MakeTerminalReader(Completer complete) {
  return std::make_unique<TerminalReader>(std::move(complete));
}

std::unique_ptr<LineReader> MakeStreamReader(std::istream& in) { return std::make_unique<StreamReader>(in); }

std::string_view StripPrompt(std::string_view line) {
  for (const std::string_view prompt : {">>> ", "... "}) {
    if (line.starts_with(prompt)) return line.substr(prompt.size());
  }
  return line == ">>>" || line == "..." ? std::string_view() : line;
}

}  // namespace tensord::cli

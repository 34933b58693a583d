/* completion.c - `attune completion bash|zsh|fish`: the shell's completion, from the commands' own
 * tables, so that it cannot fall behind them. `make install` puts the three where shells look. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

/* Words of a command that its usage does not name as a file. */
static const struct {
  const char *command, *words;
} fixed_words[] = {{"cache", "info clear"}, {"completion", "bash zsh fish"}};

static const char *words_of(const char *command) {
  for (size_t i = 0; i < sizeof fixed_words / sizeof *fixed_words; i++)
    if (!strcmp(fixed_words[i].command, command)) return fixed_words[i].words;
  return NULL;
}

/* Text inside single quotes; zsh also reads brackets there, as the end of an explanation. */
static void quoted(const char *text, size_t length, int zsh, attune__text *out) {
  for (size_t i = 0; i < length; i++) {
    if (text[i] == '\'')
      attune__text_puts(out, zsh ? "'\\''" : "\\'");
    else if (text[i] == '\\' || (zsh && strchr("[]:", text[i])))
      attune__text_printf(out, "\\%c", text[i]);
    else
      attune__text_add(out, text + i, 1);
  }
}

/* What a command does: its first sentence, at most a line. */
static void summary(const cli_command *command, int zsh, attune__text *out) {
  size_t length = strcspn(command->text, ".:\n");
  quoted(command->text, length, zsh, out);
}

static void bash(attune__text *out) {
  attune__text_puts(out, "# bash completion of attune; made by `attune completion bash`\n"
                         "_attune() {\n"
                         "  local word=${COMP_WORDS[COMP_CWORD]} words=''\n"
                         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    words='--help --version");
  for (int i = 0; cli_commands[i]; i++) attune__text_printf(out, " %s", cli_commands[i]->name);
  attune__text_puts(out, "'\n  else\n    case ${COMP_WORDS[1]} in\n");
  for (int i = 0; cli_commands[i]; i++) {
    const char *words = words_of(cli_commands[i]->name);
    attune__text_printf(out, "      %s) words='%s%s", cli_commands[i]->name, words ? words : "",
                        words ? " " : "");
    for (const cli_option *o = cli_commands[i]->options; o && o->name; o++)
      attune__text_printf(out, "%s ", o->name);
    attune__text_puts(out, "--json --help' ;;\n");
  }
  attune__text_puts(out, "    esac\n  fi\n"
                         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n}\n"
                         "complete -o default -F _attune attune\n");
}

static void zsh(attune__text *out) {
  attune__text_puts(out, "#compdef attune\n# made by `attune completion zsh`\n"
                         "_attune() {\n  local -a commands=(\n");
  for (int i = 0; cli_commands[i]; i++) {
    attune__text_printf(out, "    '%s:", cli_commands[i]->name);
    summary(cli_commands[i], 1, out);
    attune__text_puts(out, "'\n");
  }
  attune__text_puts(out, "  )\n  if (( CURRENT == 2 )); then\n"
                         "    _describe command commands\n    return\n  fi\n"
                         "  case $words[2] in\n");
  for (int i = 0; cli_commands[i]; i++) {
    attune__text_printf(out, "    %s) _arguments", cli_commands[i]->name);
    for (const cli_option *o = cli_commands[i]->options; o && o->name; o++) {
      attune__text_printf(out, " \\\n      '%s[", o->name);
      quoted(o->text, strlen(o->text), 1, out);
      attune__text_puts(out, "]");
      if (o->argument) attune__text_printf(out, ":%s:_files", o->argument);
      attune__text_puts(out, "'");
    }
    attune__text_puts(out, " \\\n      '--json[machine-readable output]' '--help[options]'");
    const char *words = words_of(cli_commands[i]->name);
    if (words)
      attune__text_printf(out, " '2:word:(%s)' ;;\n", words);
    else
      attune__text_puts(out, " '*:file:_files' ;;\n");
  }
  attune__text_puts(out, "  esac\n}\n_attune \"$@\"\n");
}

static void fish_option(const char *command, const cli_option *o, attune__text *out) {
  const char *kind = o->name[1] == '-' ? "l" : "s";
  attune__text_printf(out, "complete -c attune -n '__fish_seen_subcommand_from %s' -%s %s%s -d '",
                      command, kind, o->name + (o->name[1] == '-' ? 2 : 1),
                      o->argument ? " -r" : "");
  quoted(o->text, strlen(o->text), 0, out);
  attune__text_puts(out, "'\n");
}

static void fish(attune__text *out) {
  static const cli_option implied[] = {{"--json", NULL, "machine-readable output"},
                                       {"--help", NULL, "options"}};
  attune__text_puts(out, "# fish completion of attune; made by `attune completion fish`\n");
  for (int i = 0; cli_commands[i]; i++) {
    const char *name = cli_commands[i]->name, *words = words_of(name);
    attune__text_printf(out, "complete -c attune -n __fish_use_subcommand -f -a %s -d '", name);
    summary(cli_commands[i], 0, out);
    attune__text_puts(out, "'\n");
    for (const cli_option *o = cli_commands[i]->options; o && o->name; o++)
      fish_option(name, o, out);
    for (int k = 0; k < 2; k++) fish_option(name, &implied[k], out);
    if (words)
      attune__text_printf(
          out, "complete -c attune -n '__fish_seen_subcommand_from %s' -f -a '%s'\n", name, words);
  }
}

static const struct {
  const char *name;
  void (*write)(attune__text *out);
} shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

static int run(const cli_args *args) {
  attune__text text = {0};
  for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
    if (!strcmp(args->word[0], shells[i].name)) shells[i].write(&text);
  if (!text.size) {
    fprintf(stderr, "attune completion: error: %s: wanted bash, zsh or fish\n", args->word[0]);
    return CLI_USAGE;
  }
  return args->json ? cli_print_json_text("completion", &text) : cli_print(&text);
}

static const cli_option options[] = {{NULL, NULL, NULL}};

const cli_command cli_completion_command = {
    .name = "completion",
    .usage = "completion bash|zsh|fish",
    .text = "Prints the completion script of a shell. For one session of bash:\n"
            "eval \"$(attune completion bash)\". `make install` installs all three.",
    .options = options,
    .min_words = 1,
    .max_words = 1,
    .run = run,
};

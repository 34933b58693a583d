/* man.c - `attune man`: the manual page, from the commands' own tables. What is not in a table
 * (exit codes, variables, files) stands here once. `make install` installs it as attune.1. */
#include "cli.h"

static const char head[] =
    ".SH NAME\nattune \\- attention kernels made to measure\n"
    ".SH SYNOPSIS\n.B attune\n.I COMMAND\n[\\fIarguments\\fR] [\\fB\\-\\-json\\fR] "
    "[\\fB\\-\\-help\\fR]\n"
    ".SH DESCRIPTION\nattune reads YAML specs of attention kernels, plans tiles that fit the\n"
    "memory on chip by counting the bytes that move, writes CUDA, compiles it with NVRTC,\n"
    "and keeps the binaries behind a small runtime lookup. Building, verifying and counting\n"
    "need no GPU: the CPU device executes the kernels.\n"
    ".PP\nResults go to standard output, messages to standard error.\n"
    ".SH COMMANDS\n";

static const char tail[] =
    ".SH EXIT STATUS\n"
    ".TP\n0\nfine\n.TP\n1\na check failed\n.TP\n2\nusage, or a bad spec\n"
    ".TP\n3\na tool or device is missing\n"
    ".SH ENVIRONMENT\n`attune doctor` lists every variable that is read, and its value.\n"
    ".SH FILES\n.TP\n.I ~/.cache/attune\nkernels that were compiled at their first call\n"
    ".TP\n.I share/attune/specs\nspecs to start from, and README.md, the manual of specs\n"
    ".TP\n.I include/attune/attune.h\nthe manual of the library\n";

/* roff reads backslashes, hyphens and a point or quote at a line's start. */
static void escaped(const char *text, attune__text *out) {
  for (int at_start = 1; *text; text++) {
    if (at_start && (*text == '.' || *text == '\'')) attune__text_puts(out, "\\&");
    if (*text == '\\')
      attune__text_puts(out, "\\e");
    else if (*text == '-')
      attune__text_puts(out, "\\-");
    else
      attune__text_add(out, text, 1);
    at_start = *text == '\n';
  }
}

static void option(const cli_option *o, attune__text *out) {
  attune__text_puts(out, ".TP\n\\fB");
  escaped(o->name, out);
  attune__text_printf(out, "\\fR%s", o->argument ? " \\fI" : "");
  if (o->argument) escaped(o->argument, out), attune__text_puts(out, "\\fR");
  attune__text_puts(out, "\n");
  escaped(o->text, out);
  attune__text_puts(out, "\n");
}

static void command(const cli_command *c, attune__text *out) {
  attune__text_puts(out, ".SS ");
  escaped(c->name, out);
  attune__text_puts(out, "\n\\fBattune ");
  escaped(c->usage, out);
  attune__text_puts(out, "\\fR\n.PP\n");
  escaped(c->text, out);
  attune__text_puts(out, "\n");
  for (const cli_option *o = c->options; o && o->name; o++) option(o, out);
}

static int run(const cli_args *args) {
  attune__text text = {0};
  attune__text_printf(&text, ".TH ATTUNE 1 \"\" \"attune %s\" \"User Commands\"\n",
                      attune_version());
  attune__text_puts(&text, head);
  for (int i = 0; cli_commands[i]; i++) command(cli_commands[i], &text);
  attune__text_puts(&text, tail);
  return args->json ? cli_print_json_text("man", &text) : cli_print(&text);
}

static const cli_option options[] = {{NULL, NULL, NULL}};

const cli_command cli_man_command = {
    .name = "man",
    .usage = "man",
    .text = "Prints the manual page, for `attune man | man -l -`; `make install` installs it.",
    .options = options,
    .run = run,
};

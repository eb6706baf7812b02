#include "cli/cli.h"

#include <string.h>

#include "base/error.h"

/* Options of every command that no config file can give. */
typedef struct general_values {
    const char *config;
    bool help;
} general_values;

static const mk_option general_options[] = {
    {"config", 'c', MK_OPTION_PATH, MK_SECTION_COMMAND, offsetof(general_values, config), 0, 0, NULL, 0, "FILE",
     "a config file; the command line has the last word"},
    {"help", 'h', MK_OPTION_FLAG, MK_SECTION_COMMAND, offsetof(general_values, help), 0, 0, NULL, 0, NULL,
     "this text"},
};
#define GENERAL_OPTIONS (sizeof general_options / sizeof *general_options)

/* Where the values go; NULL where they are only checked. */
typedef struct targets {
    general_values *general;
    mk_config *config;
    void *own;
} targets;

typedef struct parser {
    const cli_command *command;
    int argc;
    char **argv;
    const char *operand;
} parser;

/* An argument that begins with '-', taken apart. */
typedef struct argument {
    const char *text;
    char name[64];     /* without dashes; cut where it is longer than any option */
    char letter;       /* of the short form, 0: long form */
    const char *value; /* behind '=', NULL: none */
} argument;

static argument take_apart(const char *text)
{
    argument a = {.text = text};
    if (text[1] != '-') {
        a.letter = text[1];
        a.name[0] = text[2] ? '?' : text[1]; /* letters are not joined */
        return a;
    }
    size_t length = strcspn(text + 2, "=");
    if (text[2 + length] == '=')
        a.value = text + 2 + length + 1;
    if (length >= sizeof a.name)
        length = sizeof a.name - 1;
    memcpy(a.name, text + 2, length);
    return a;
}

static const mk_option *find(const mk_option *options, size_t count, const argument *a)
{
    for (size_t i = 0; i < count; i++) {
        if (a->letter ? options[i].letter == a->letter && a->name[0] == a->letter
                      : strcmp(options[i].name, a->name) == 0)
            return &options[i];
    }
    return NULL;
}

static int usage(const parser *p, const char *format, const char *found)
{
    char line[512];
    mk_format(line, sizeof line, format, found);
    cli_error("%s (makarna %s --help lists the options)", line, p->command->name);
    return CLI_USAGE;
}

static int set(const mk_option *option, const char *value, void *target)
{
    if (mk_option_set(option, value, target))
        return CLI_DONE;
    char expected[128];
    mk_option_expected(option, expected, sizeof expected);
    cli_error("--%s: expected %s, found \"%s\"", option->name, expected, value);
    return CLI_USAGE;
}

/* One option; *index moves over its value. The command's own options come before the config's. */
static int parse_option(parser *p, int *index, const targets *to)
{
    argument a = take_apart(p->argv[*index]);
    const mk_option *option = find(general_options, GENERAL_OPTIONS, &a);
    void *target = to->general;
    if (!option) {
        option = find(p->command->options, p->command->option_count, &a);
        target = to->own;
    }
    if (!option) {
        option = find(mk_config_options, MK_CONFIG_OPTIONS, &a);
        target = to->config;
        if (option && !(option->section & p->command->sections))
            return usage(p, "%s has no meaning here", a.text);
    }
    if (!option)
        return usage(p, "there is no option %s", a.text);

    const char *value = a.value;
    if (!value && option->kind == MK_OPTION_FLAG)
        value = "true";
    if (!value && ++*index < p->argc)
        value = p->argv[*index];
    if (!value)
        return usage(p, "a value is missing after %s", a.text);
    int status = set(option, value, target);
    if (status == CLI_DONE && target && target == to->config)
        to->config->origins[option - mk_config_options] = (mk_config_origin){0};
    return status;
}

static int parse_all(parser *p, const targets *to)
{
    bool options = true;
    p->operand = NULL;
    for (int i = 0; i < p->argc; i++) {
        const char *text = p->argv[i];
        if (options && strcmp(text, "--") == 0) {
            options = false;
        } else if (options && text[0] == '-' && text[1]) {
            int status = parse_option(p, &i, to);
            if (status)
                return status;
        } else if (!p->command->operand) {
            return usage(p, "\"%s\" is no option", text);
        } else if (p->operand) {
            return usage(p, "\"%s\" is one argument too many: put quotes around a text", text);
        } else {
            p->operand = text;
        }
    }
    return CLI_DONE;
}

bool cli_parse(const cli_command *command, int argc, char **argv, mk_config *config, void *own,
               const char **operand, int *status)
{
    static _Alignas(8) char memory[MK_CONFIG_MEMORY];
    parser p = {command, argc, argv, NULL};
    general_values general = {0};
    *status = parse_all(&p, &(targets){.general = &general});
    if (*status)
        return false;
    if (general.help) {
        cli_help(command);
        *status = cli_finish(CLI_DONE);
        return false;
    }
    *config = mk_config_default();
    mk_error err;
    if (general.config && mk_config_load(config, general.config, memory, sizeof memory, &err)) {
        *status = cli_error("%s", err.text);
        return false;
    }
    *status = parse_all(&p, &(targets){.config = config, .own = own});
    *operand = p.operand;
    return *status == CLI_DONE;
}

/* ---- Help ------------------------------------------------------------------------------------------ */

static void help_option(const mk_option *option)
{
    char left[64];
    const char *gap = option->argument ? " " : "", *name = option->argument ? option->argument : "";
    size_t length;
    if (option->letter)
        length = mk_format(left, sizeof left, "  -%s, --%s%s%s", (char[]){option->letter, 0}, option->name, gap,
                           name);
    else
        length = mk_format(left, sizeof left, "      --%s%s%s", option->name, gap, name);
    cli_put(left, length);
    cli_put("                            ", length < 27 ? 27 - length : 1);
    cli_say("%s\n", option->help);
}

static void help_section(const cli_command *command, unsigned section, const char *title)
{
    if (!(command->sections & section))
        return;
    cli_say("\n%s:\n", title);
    for (size_t i = 0; i < MK_CONFIG_OPTIONS; i++) {
        const mk_option *option = &mk_config_options[i];
        argument a = {.letter = option->letter, .name = {option->letter}};
        bool hidden = option->letter && find(command->options, command->option_count, &a);
        if (option->section == section && !hidden)
            help_option(option);
    }
}

void cli_help(const cli_command *command)
{
    cli_say(command->operand ? "makarna %s [options] %s\n\n" : "makarna %s [options]\n\n", command->name,
            command->operand);
    cli_say("%s.\n", command->summary);
    cli_put(command->details, strlen(command->details));
    cli_say("\nOptions:\n");
    for (size_t i = 0; i < command->option_count; i++)
        help_option(&command->options[i]);
    for (size_t i = 0; i < GENERAL_OPTIONS; i++)
        help_option(&general_options[i]);
    help_section(command, MK_SECTION_MODEL, "Model, also keys of a config file");
    help_section(command, MK_SECTION_ENGINE, "Engine");
    help_section(command, MK_SECTION_MEMORY, "Memory");
    help_section(command, MK_SECTION_CHAT, "Chat");
    help_section(command, MK_SECTION_SAMPLING, "Sampling");
    cli_say("\nExample:\n");
    cli_put(command->example, strlen(command->example));
}

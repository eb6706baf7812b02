/* makarna - runs language models on small machines. One subcommand a file; this one picks it. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static const cli_command *const commands[] = {&cli_run,        &cli_info,     &cli_bench,
                                              &cli_perplexity, &cli_tokenize, &cli_verify};
#define COMMANDS (sizeof commands / sizeof *commands)

static void say_usage(void)
{
    cli_say("makarna runs language models on small machines.\n\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        size_t length = strlen(commands[i]->name);
        cli_say("  makarna %s", commands[i]->name);
        cli_put("            ", length < 12 ? 12 - length : 1);
        cli_say("%s\n", commands[i]->summary);
    }
    cli_say("\nmakarna COMMAND --help says more, with an example. makarna-quant makes the images.\n"
            "Exit status: 0 done, 1 could not, 2 wrong usage.\n");
}

/* Where a standard stream is closed, the next file that is opened would take its number, and get what is
 * printed. /dev/null for reading takes it, so that writing there is still an error. */
static void occupy_standard_streams(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDONLY);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        cli_error("no command: makarna --help lists them");
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        say_usage();
        return CLI_DONE;
    }
    if (strcmp(name, "--version") == 0) {
        cli_say("makarna %s\n", MK_VERSION);
        cli_say_kernels("kernels:");
        return CLI_DONE;
    }
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i]->run(argc - 2, argv + 2);
    cli_error("there is no command %s: makarna --help lists them", name);
    return CLI_USAGE;
}

int main(int argc, char **argv)
{
    cli_age(); /* the clock starts */
    occupy_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* write says it */
    return cli_finish(dispatch(argc, argv));
}

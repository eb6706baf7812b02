/* makarna-quant - turns a model file into a .mkn image. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "makarna.h"
#include "quant/convert/quantize.h"
#include "quant/encode/parallel.h"
#include "quant/read/inspect.h"
#include "quant/read/reader.h"

static const char usage[] =
    "usage: makarna-quant INPUT -o MODEL.mkn [options]\n"
    "       makarna-quant --inspect INPUT\n"
    "\n"
    "INPUT is a .gguf file (architecture llama) or a llama2.c .bin file.\n"
    "\n"
    "  -o, --output FILE      the image to write\n"
    "  --type q4|q8           of the layers' matrices (default q4)\n"
    "  --embedding q4|q8      of the token embedding, and so of a head tied to it (default q8)\n"
    "  --head q4|q8           of an output head of its own (default q8)\n"
    "  --tokenizer FILE       tokenizer .bin of a llama2.c model\n"
    "  --chat-format NAME     chatml or none (default: by the chat template in INPUT)\n"
    "  --vocab-only           the tokenizer alone, of any architecture\n"
    "  --threads N            1 to 64 (default: the online cores); the image does not depend on it\n"
    "  --inspect              print what INPUT holds, write nothing\n"
    "  -h, --help             this text\n"
    "  --version              version of the program\n";

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef struct arguments {
    source_request source;
    quantize_options options;
    const char *type, *embedding, *head, *threads;
    bool inspect, help, version;
} arguments;

/* ---- Command line ----------------------------------------------------------------------------- */

typedef struct option {
    const char *name;
    const char **value; /* NULL: a flag */
    bool *flag;
} option;

static int wrong_usage(const char *what, const char *which)
{
    fprintf(stderr, "makarna-quant: %s%s\nTry makarna-quant --help.\n", what, which);
    return EXIT_USAGE;
}

/* Whether `argument` is the option, perhaps with "=value" behind a long name. */
static bool is_option(const char *argument, const char *name, const char **attached)
{
    size_t length = strlen(name);
    *attached = NULL;
    if (strncmp(argument, name, length) != 0)
        return false;
    if (argument[length] == '=' && argument[1] == '-')
        *attached = argument + length + 1;
    return argument[length] == 0 || *attached;
}

/* Handles argument *index; steps over a value. */
static int take_option(const option *options, int argc, char **argv, int *index)
{
    const char *attached;
    for (const option *o = options; o->name; o++) {
        if (!is_option(argv[*index], o->name, &attached))
            continue;
        if (!o->value && attached)
            return wrong_usage("takes no value: ", o->name);
        if (!o->value) {
            *o->flag = true;
            return EXIT_DONE;
        }
        if (*o->value)
            return wrong_usage("given twice: ", o->name);
        if (!attached && *index + 1 >= argc)
            return wrong_usage("needs a value: ", o->name);
        *o->value = attached ? attached : argv[++*index];
        return EXIT_DONE;
    }
    return wrong_usage("unknown option: ", argv[*index]);
}

static int parse_arguments(arguments *a, int argc, char **argv)
{
    const option options[] = {{"-o", &a->options.output, NULL},
                              {"--output", &a->options.output, NULL},
                              {"--type", &a->type, NULL},
                              {"--embedding", &a->embedding, NULL},
                              {"--head", &a->head, NULL},
                              {"--tokenizer", &a->source.tokenizer, NULL},
                              {"--chat-format", &a->options.chat_format, NULL},
                              {"--threads", &a->threads, NULL},
                              {"--vocab-only", NULL, &a->source.vocab_only},
                              {"--inspect", NULL, &a->inspect},
                              {"-h", NULL, &a->help},
                              {"--help", NULL, &a->help},
                              {"--version", NULL, &a->version},
                              {NULL, NULL, NULL}};
    bool only_files = false;
    for (int i = 1; i < argc; i++) {
        if (!only_files && strcmp(argv[i], "--") == 0) {
            only_files = true;
        } else if (!only_files && argv[i][0] == '-' && argv[i][1]) {
            int status = take_option(options, argc, argv, &i);
            if (status)
                return status;
        } else if (a->source.path) {
            return wrong_usage("more than one input: ", argv[i]);
        } else {
            a->source.path = argv[i];
        }
    }
    return EXIT_DONE;
}

static int parse_type(const char *option_name, const char *text, uint32_t *type)
{
    if (!text)
        return EXIT_DONE;
    if (strcmp(text, "q4") != 0 && strcmp(text, "q8") != 0) {
        fprintf(stderr, "makarna-quant: %s is \"%s\", expected q4 or q8\nTry makarna-quant --help.\n",
                option_name, text);
        return EXIT_USAGE;
    }
    *type = text[1] == '4' ? MKN_Q4 : MKN_Q8;
    return EXIT_DONE;
}

static int parse_values(arguments *a)
{
    quantize_options *o = &a->options;
    int status;
    o->types = (plan_types){MKN_Q4, MKN_Q8, MKN_Q8};
    o->threads = parallel_default();
    o->vocab_only = a->source.vocab_only;
    if ((status = parse_type("--type", a->type, &o->types.layers)) ||
        (status = parse_type("--embedding", a->embedding, &o->types.embedding)) ||
        (status = parse_type("--head", a->head, &o->types.head)))
        return status;
    if (a->threads) {
        char *end;
        long n = strtol(a->threads, &end, 10);
        if (*end || end == a->threads || n < 1 || n > PARALLEL_MAX)
            return wrong_usage("--threads is not a number from 1 to 64: ", a->threads);
        o->threads = (uint32_t)n;
    }
    if (!a->source.path)
        return wrong_usage("no input given", "");
    if (a->source.path[0] == 0)
        return wrong_usage("the name of the input is empty", "");
    if (!a->inspect && (!o->output || !o->output[0]))
        return wrong_usage("no output given; name the image with -o FILE", "");
    if (a->inspect && o->output)
        return wrong_usage("--inspect writes nothing; leave out -o", "");
    if (o->vocab_only && (a->type || a->embedding || a->head))
        return wrong_usage("--vocab-only writes no weights; leave out --type, --embedding and --head", "");
    return EXIT_DONE;
}

/* ---- Work ------------------------------------------------------------------------------------- */

/* A tied head is the embedding, so that either option may name its type. */
static mk_status settle_head(arguments *a, const source_model *model, mk_error *err)
{
    plan_types *types = &a->options.types;
    if (a->options.vocab_only || !a->head || !plan_is_tied(model))
        return MK_OK;
    if (a->embedding && types->embedding != types->head) {
        snprintf(err->text, sizeof err->text,
                 "%s: the output head is the token embedding, so --embedding and --head cannot differ",
                 a->source.path);
        return MK_ERR_ARGUMENT;
    }
    types->embedding = types->head;
    return MK_OK;
}

static mk_status run(arguments *a, mk_error *err)
{
    source s;
    a->source.inspect = a->inspect;
    mk_status status = source_open(&s, &a->source, err);
    if (status)
        return status;
    if (a->inspect)
        inspect_source(&s);
    else if (!(status = settle_head(a, &s.model, err)))
        status = quantize(&s, &a->options, err);
    source_close(&s);
    return status;
}

/* Output that did not get through (a full disk, a closed pipe) is a failure too. */
static int end_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return EXIT_DONE;
    fprintf(stderr, "makarna-quant: cannot write to standard output\n");
    return EXIT_FAILED;
}

int main(int argc, char **argv)
{
    arguments a = {0};
    mk_error err = {""};
    int status = parse_arguments(&a, argc, argv);
    if (status)
        return status;
    if (a.help || a.version) {
        fputs(a.help ? usage : "makarna-quant " MK_VERSION "\n", stdout);
        return end_output();
    }
    if ((status = parse_values(&a)))
        return status;
    if (run(&a, &err)) {
        fflush(stdout);
        fprintf(stderr, "makarna-quant: %s\n", err.text);
        return EXIT_FAILED;
    }
    return end_output();
}

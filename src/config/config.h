/* config.h - what a config file can say, and reading one.
 *
 *     # comment (a '#' at the start, or after white space)
 *     include = ../boards/pi5.conf    # a board's defaults
 *     model = smollm2-q4.mkn
 *     [sampling]
 *     temp = 0.7
 *
 * A key stands before every section or in its own one ([model], [engine], [memory], [chat], [sampling]):
 * sections group, and a key in the wrong one is a mistake. Paths are relative to the file that they stand in. A
 * value may be put in double quotes, where \n, \t, \" and \\ have their usual meaning and '#' none.
 *
 * `include` may be given several times and stand anywhere. Of several files that give a key, the one
 * nearest to the top of the includes wins, and among equals the one read later; in one file a key stands
 * once. */
#ifndef MK_CONFIG_H
#define MK_CONFIG_H

#include "config/option.h"
#include "makarna.h"

#define MK_CONFIG_OPTIONS 18u    /* in mk_config_options */
#define MK_CONFIG_MAX_LINE 4096u /* bytes */
#define MK_CONFIG_MAX_DEPTH 8u   /* of includes */
#define MK_CONFIG_MEMORY 65536u  /* bytes that are ample for the files and their names */

#define MK_CONFIG_SEED_RANDOM UINT64_MAX
#define MK_CONFIG_UNLIMITED UINT32_MAX

/* Where a value came from. */
typedef struct mk_config_origin {
    const char *file; /* NULL: not from a file */
    uint32_t line;    /* 0: not given at all */
    uint32_t depth;   /* of includes */
    uint32_t reading; /* number of the file, counting every time that one is read */
} mk_config_origin;

typedef struct mk_config {
    const char *model;  /* NULL: not given */
    const char *system; /* NULL: the model's default */
    const char *isa;    /* NULL: the fastest */
    uint64_t memory;    /* cap of the arena in bytes, 0: none */
    uint64_t seed;      /* or MK_CONFIG_SEED_RANDOM */
    uint32_t load;      /* mk_load */
    uint32_t kv;        /* mk_kv_type */
    uint32_t threads;   /* 0: auto */
    uint32_t context;   /* 0: auto */
    uint32_t batch;     /* 0: auto */
    uint32_t n;         /* new tokens at most, or MK_CONFIG_UNLIMITED */
    bool raw;
    mk_sampling sampling;
    mk_config_origin origins[MK_CONFIG_OPTIONS]; /* by index of the option */
} mk_config;

/* All options of config files. The command line takes the same. */
extern const mk_option mk_config_options[MK_CONFIG_OPTIONS];

/* Index of the option of this name, or -1. */
int mk_config_find(const char *name);

/* Greedy, everything else left to the library's defaults. */
mk_config mk_config_default(void);

/* Reads a file, and what it includes, over the values in config. memory [size] receives the text, which
 * config then points into: it stays the caller's and must live as long. An error names file, line and
 * key, and leaves config half-read. */
mk_status mk_config_load(mk_config *config, const char *path, void *memory, size_t size, mk_error *err);

#endif

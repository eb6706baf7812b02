/* option.h - a named setting: what it is called, where it is stored, and what values it takes. One table
 * of them serves the config file, the command line and the help text. */
#ifndef MK_CONFIG_OPTION_H
#define MK_CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mk_option_kind {
    MK_OPTION_TEXT,   /* const char * */
    MK_OPTION_PATH,   /* const char *; relative to the folder of the config file that names it */
    MK_OPTION_COUNT,  /* uint32_t */
    MK_OPTION_NUMBER, /* uint64_t */
    MK_OPTION_SIZE,   /* uint64_t, bytes: 65536, 512K, 64M, 1G */
    MK_OPTION_REAL,   /* float, as decimal digits with or without a point */
    MK_OPTION_CHOICE, /* uint32_t, which of the words */
    MK_OPTION_FLAG,   /* bool: true or false; on the command line the name alone means true */
} mk_option_kind;

/* Groups of options; sections of a config file have their names. */
enum {
    MK_SECTION_MODEL = 1,
    MK_SECTION_ENGINE = 2,
    MK_SECTION_MEMORY = 4,
    MK_SECTION_CHAT = 8,
    MK_SECTION_SAMPLING = 16,
    MK_SECTION_COMMAND = 32, /* of one command: no section, not in config files */
};

typedef struct mk_option {
    const char *name;
    char letter; /* of the short form, 0: none */
    mk_option_kind kind;
    unsigned section;
    size_t offset;        /* of the value in its struct */
    uint64_t min, max;    /* COUNT, NUMBER, SIZE; REAL in thousandths */
    const char *words;    /* CHOICE: all, "q8|q4"; COUNT and NUMBER: one that is taken too, or NULL */
    uint64_t word_value;  /* what that one stores */
    const char *argument; /* name of the value in the help text; NULL for a FLAG */
    const char *help;
} mk_option;

/* Reads `value` into the option's place in the struct `target`, where target is not NULL. A TEXT or PATH
 * keeps the pointer. False if the value is none of this option's. */
bool mk_option_set(const mk_option *option, const char *value, void *target);

/* What values the option takes, as a phrase: "a whole number from 1 to 64, or auto". */
void mk_option_expected(const mk_option *option, char *out, size_t capacity);

#endif

/* check.h - what every test program uses: count checks, print the ones that fail, fail if any did or
 * if none ran. A test returns check_end() from main. Exit status 77 means skipped, with the reason. */
#ifndef MK_TESTS_CHECK_H
#define MK_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long check_count, check_failures;

#define CHECK(condition)                                                                                       \
    do {                                                                                                       \
        check_count++;                                                                                         \
        if (!(condition) && check_failures++ < 20)                                                             \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                            \
    } while (0)

/* The same with a printf-style explanation. */
#define CHECK_MSG(condition, ...)                                                                              \
    do {                                                                                                       \
        check_count++;                                                                                         \
        if (!(condition) && check_failures++ < 20) {                                                           \
            fprintf(stderr, "%s:%d: failed: %s: ", __FILE__, __LINE__, #condition);                            \
            fprintf(stderr, __VA_ARGS__);                                                                      \
            fputc('\n', stderr);                                                                               \
        }                                                                                                      \
    } while (0)

#define CHECK_STR(actual, expected)                                                                            \
    CHECK_MSG(strcmp(actual, expected) == 0, "got \"%s\", expected \"%s\"", actual, expected)

#define CHECK_SKIP(...)                                                                                        \
    do {                                                                                                       \
        fprintf(stderr, "skipped: ");                                                                          \
        fprintf(stderr, __VA_ARGS__);                                                                          \
        fputc('\n', stderr);                                                                                   \
        exit(77);                                                                                              \
    } while (0)

static inline int check_end(void)
{
    printf("%lu checks, %lu failed\n", check_count, check_failures);
    return check_failures || !check_count ? 1 : 0;
}

#endif

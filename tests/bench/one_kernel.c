/* one_kernel SET CASE RUNS - runs one case of tests/kernels/bench.h with one kernel set, so that its
 * instructions can be counted: what RUNS of 0 costs is the making of the data.
 *
 * one_kernel list - the cases: number, units of work in one run, kernel, unit. */
#define _GNU_SOURCE

#include "kernels/inputs.h"

#include "kernels/bench.h"

int main(int argc, char **argv)
{
    unsigned long cases = sizeof bench_cases / sizeof bench_cases[0];
    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        for (unsigned long i = 0; i < cases; i++)
            printf("%lu|%.0f|%s|%s\n", i, bench_cases[i].work, bench_cases[i].name, bench_cases[i].unit);
        return 0;
    }
    const mk_kernels *k = argc == 4 ? mk_kernels_find(argv[1]) : NULL;
    unsigned long number = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
    if (!k || !mk_kernels_available(k) || number >= cases) {
        fprintf(stderr, "usage: %s SET CASE RUNS | list\n", argv[0]);
        return 2;
    }
    bench_data d = make_bench_data(mk_kernels_find("scalar"));
    for (unsigned long runs = strtoul(argv[3], NULL, 10); runs > 0; runs--)
        bench_cases[number].run(k, &d);
    return 0;
}

/* select.c - the kernel sets of this build and which of them this CPU can run. */
#include <string.h>

#include "kernels/internal.h"

#if defined(__aarch64__) || defined(__arm__)
#include <sys/auxv.h>

/* Bits of AT_HWCAP, part of Linux's interface; old headers lack some of their names. */
enum {
    CAP_AARCH64_ASIMD = 1 << 1,
    CAP_AARCH64_ASIMDDP = 1 << 20,
    CAP2_AARCH64_I8MM = 1 << 13, /* of AT_HWCAP2 */
    CAP_ARM_NEON = 1 << 12,
    CAP_ARM_VFPV4 = 1 << 16,
};
#endif

static const mk_kernels *const sets[] = {
    &mk_kernels_scalar,
#ifdef MK_HAVE_NEON
    &mk_kernels_neon,
#endif
#ifdef MK_HAVE_DOTPROD
    &mk_kernels_dotprod,
#endif
#ifdef MK_HAVE_I8MM
    &mk_kernels_i8mm,
#endif
#ifdef MK_HAVE_AVX2
    &mk_kernels_avx2,
#endif
#ifdef MK_HAVE_AVX512VNNI
    &mk_kernels_avx512vnni,
#endif
};

const mk_kernels *mk_kernels_at(size_t index)
{
    return index < sizeof sets / sizeof sets[0] ? sets[index] : NULL;
}

#if defined(__aarch64__)
static bool cpu_has(const char *name)
{
    unsigned long has = getauxval(AT_HWCAP);
    if (strcmp(name, "neon") == 0)
        return has & CAP_AARCH64_ASIMD;
    if (!(has & CAP_AARCH64_ASIMDDP))
        return false;
    return strcmp(name, "dotprod") == 0 ||
           (strcmp(name, "i8mm") == 0 && (getauxval(AT_HWCAP2) & CAP2_AARCH64_I8MM));
}
#elif defined(__arm__)
static bool cpu_has(const char *name)
{
    unsigned long needs = CAP_ARM_NEON | CAP_ARM_VFPV4;
    return strcmp(name, "neon") == 0 && (getauxval(AT_HWCAP) & needs) == needs;
}
#elif defined(__x86_64__)
/* These ask for the operating system's support of the registers too. */
static bool cpu_has(const char *name)
{
    bool avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    if (strcmp(name, "avx2") == 0)
        return avx2;
    return strcmp(name, "avx512vnni") == 0 && avx2 && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
}
#else
static bool cpu_has(const char *name)
{
    (void)name;
    return false;
}
#endif

bool mk_kernels_available(const mk_kernels *k)
{
    return k == &mk_kernels_scalar || cpu_has(k->name);
}

const mk_kernels *mk_kernels_find(const char *name)
{
    for (size_t i = sizeof sets / sizeof sets[0]; i-- > 0;) {
        if (name ? strcmp(name, sets[i]->name) == 0 : mk_kernels_available(sets[i]))
            return sets[i];
    }
    return NULL;
}

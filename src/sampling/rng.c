/* PCG-XSH-RR 64/32 (O'Neill 2014, "PCG: a family of simple fast space-efficient statistically good
 * algorithms for random number generation"). */
#include "sampling/sampler.h"

/* Stream 54: that of the reference program's published output, which the tests compare with. */
#define INCREMENT (54u << 1 | 1u)
#define MULTIPLIER 6364136223846793005u

uint32_t mk_rng_next(mk_rng *rng)
{
    uint64_t state = rng->state;
    rng->state = state * MULTIPLIER + INCREMENT;
    uint32_t xorshifted = (uint32_t)((state >> 18 ^ state) >> 27);
    uint32_t rotation = (uint32_t)(state >> 59);
    return xorshifted >> rotation | xorshifted << (-rotation & 31);
}

mk_rng mk_rng_seed(uint64_t seed)
{
    mk_rng rng = {0};
    mk_rng_next(&rng);
    rng.state += seed;
    mk_rng_next(&rng);
    return rng;
}

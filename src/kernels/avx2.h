/* avx2.h - functions of the avx2 set that avx512vnni takes over. */
#ifndef MK_KERNELS_AVX2_H
#define MK_KERNELS_AVX2_H

#include "kernels/attention.h"
#include "kernels/internal.h"

void mk_avx2_hadamard(float *x, uint32_t n);
void mk_avx2_quantize(const float *x, uint32_t cols, bool transform, int8_t *codes, float *scales,
                      int32_t *sums);
void mk_avx2_rms_norm(const float *x, const float *weight, uint32_t n, float epsilon, float *out);
void mk_avx2_silu_multiply(float *gate, const float *up, uint32_t n);
void mk_avx2_add(float *x, const float *y, uint32_t n);
void mk_avx2_rope(float *x, uint32_t heads, uint32_t head_size, uint32_t half, const float *cosines,
                  const float *sines);
void mk_avx2_kv_store_q8(const float *x, uint32_t head_size, mk_kv_plane plane, uint32_t t);
void mk_avx2_kv_store_q4(const float *x, uint32_t head_size, mk_kv_plane plane, uint32_t t);
void mk_avx2_attend_q8(const mk_attention *a);
void mk_avx2_attend_q4(const mk_attention *a);

#endif

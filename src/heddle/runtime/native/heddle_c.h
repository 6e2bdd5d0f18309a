/* What C code that heddle made needs: heddle_c.h.

   Portable C99: no compiler's extension, no undefined behaviour. Compile without contraction of products and sums
   (-std=c99, or -ffp-contract=off): heddle_muladd says where they round together. */

#ifndef HEDDLE_C_H_
#define HEDDLE_C_H_

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "heddle.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A value: an argument of a kernel, a register of a program. From `kind` 7 on the pointer is to an object. */
typedef struct {
  int32_t kind, zero;
  union {
    int64_t integer; /* also of bools */
    double real;
    void *pointer;
  } as;
} HeddleCell;

/* ---- what generated code calls: heddle_runtime.h has one of each, and so may a program */

/* Says what is wrong. The low byte of `kind`: 0 the program, 1 a value, 2 a type, 3 an index. In the message %e and %g
   stand for the numbers expected and got. */
void heddle_set_error(int32_t kind, const char *message, int64_t expected, int64_t got);

/* Calls body(begin, end, data) on ranges that make up 0..extent, `grain` or more at a time where threads share the
   loop. 0, or -1 where one failed. A negative grain says that the loop may go backwards every other time. */
int32_t heddle_parallel_for(int32_t (*body)(int64_t begin, int64_t end, void *data), void *data, int64_t extent,
                            int64_t grain);

/* Memory of a kernel while it runs, aligned to 64 bytes, given back in the opposite order. NULL, with the error set,
   where there is none. */
void *heddle_workspace_alloc(int64_t size_bytes);
void heddle_workspace_free(void *workspace);

/* ---- tensors */

static inline int32_t heddle_dtype_word(const DLTensor *tensor) {
  return (int32_t)(tensor->dtype.code | ((uint32_t)tensor->dtype.bits << 8) | ((uint32_t)tensor->dtype.lanes << 16));
}

static inline void *heddle_tensor_begin(const DLTensor *tensor) {
  return tensor->byte_offset == 0 ? tensor->data : (unsigned char *)tensor->data + tensor->byte_offset;
}

/* ---- bits */

#define HEDDLE_BITS_(to, to_name, from, from_name)            \
  static inline to heddle_##to_name##_of_##from_name(from x) { \
    to bits;                                                   \
    memcpy(&bits, &x, sizeof bits);                            \
    return bits;                                               \
  }
HEDDLE_BITS_(float, f32, int32_t, i32)
HEDDLE_BITS_(float, f32, uint32_t, u32)
HEDDLE_BITS_(int32_t, i32, float, f32)
HEDDLE_BITS_(uint32_t, u32, float, f32)
HEDDLE_BITS_(double, f64, int64_t, i64)
HEDDLE_BITS_(double, f64, uint64_t, u64)
HEDDLE_BITS_(int64_t, i64, double, f64)
HEDDLE_BITS_(uint64_t, u64, double, f64)

#define HEDDLE_INFINITY heddle_f32_of_u32(UINT32_C(0x7F800000))
#define HEDDLE_NAN heddle_f32_of_u32(UINT32_C(0x7FC00000))

/* Elements of memory that holds several types. */
#define HEDDLE_ELEMENT_(type, name)                                \
  static inline type heddle_load_##name(const unsigned char *at) { \
    type value;                                                    \
    memcpy(&value, at, sizeof value);                              \
    return value;                                                  \
  }                                                                \
  static inline void heddle_store_##name(unsigned char *at, type value) { memcpy(at, &value, sizeof value); }
HEDDLE_ELEMENT_(int8_t, i8)
HEDDLE_ELEMENT_(int16_t, i16)
HEDDLE_ELEMENT_(int32_t, i32)
HEDDLE_ELEMENT_(int64_t, i64)
HEDDLE_ELEMENT_(uint8_t, u8)
HEDDLE_ELEMENT_(uint16_t, u16)
HEDDLE_ELEMENT_(uint32_t, u32)
HEDDLE_ELEMENT_(uint64_t, u64)
HEDDLE_ELEMENT_(float, f32)
HEDDLE_ELEMENT_(double, f64)

/* Integers of 2 and 4 bits in a byte. */
static inline int8_t heddle_wrap_i8(int32_t x, int32_t bits) {
  const int32_t half = 1 << (bits - 1);
  return (int8_t)(((x + half) & (2 * half - 1)) - half);
}
static inline uint8_t heddle_wrap_u8(int32_t x, int32_t bits) { return (uint8_t)(x & ((1 << bits) - 1)); }

static inline int32_t heddle_popcount(uint64_t x) {
  int32_t count = 0;
  for (; x != 0; x &= x - 1) ++count;
  return count;
}

static inline bool heddle_less(uint64_t a, uint64_t b) { return a < b; }

/* ---- integers: they wrap; quotients and remainders by zero are 0; counts beyond the width shift everything out */

#define HEDDLE_WRAPS_(type, name, wide)                                                            \
  static inline type heddle_add_##name(type a, type b) { return (type)((wide)a + (wide)b); }       \
  static inline type heddle_sub_##name(type a, type b) { return (type)((wide)a - (wide)b); }       \
  static inline type heddle_mul_##name(type a, type b) { return (type)((wide)a * (wide)b); }       \
  static inline type heddle_min_##name(type a, type b) { return a < b ? a : b; }                   \
  static inline type heddle_max_##name(type a, type b) { return a > b ? a : b; }                   \
  static inline type heddle_shl_##name(type a, type count, int32_t bits) {                         \
    return (uint64_t)count < (uint64_t)bits ? (type)((wide)a << count) : (type)0;                  \
  }

#define HEDDLE_UNSIGNED_(type, name, wide)                                                         \
  HEDDLE_WRAPS_(type, name, wide)                                                                  \
  static inline type heddle_shr_##name(type a, type count, int32_t bits) {                         \
    return (uint64_t)count < (uint64_t)bits ? (type)(a >> count) : (type)0;                        \
  }                                                                                                \
  static inline type heddle_div_##name(type a, type b) { return b == 0 ? (type)0 : (type)(a / b); } \
  static inline type heddle_mod_##name(type a, type b) { return b == 0 ? (type)0 : (type)(a % b); } \
  static inline type heddle_floordiv_##name(type a, type b) { return heddle_div_##name(a, b); }    \
  static inline type heddle_floormod_##name(type a, type b) { return heddle_mod_##name(a, b); }

#define HEDDLE_SIGNED_(type, name, wide)                                                           \
  HEDDLE_WRAPS_(type, name, wide)                                                                  \
  static inline type heddle_shr_##name(type a, type count, int32_t bits) {                         \
    const int32_t by = (uint64_t)count < (uint64_t)bits ? (int32_t)count : bits - 1;               \
    return a < 0 ? (type)~(~a >> by) : (type)(a >> by);                                            \
  }                                                                                                \
  static inline type heddle_div_##name(type a, type b) {                                           \
    return b == 0 ? (type)0 : b == -1 ? heddle_sub_##name(0, a) : (type)(a / b);                   \
  }                                                                                                \
  static inline type heddle_mod_##name(type a, type b) {                                           \
    return b == 0 || b == -1 ? (type)0 : (type)(a % b);                                            \
  }                                                                                                \
  static inline type heddle_floordiv_##name(type a, type b) {                                      \
    const type rest = heddle_mod_##name(a, b);                                                     \
    return (type)(heddle_div_##name(a, b) - (rest != 0 && (rest < 0) != (b < 0)));                 \
  }                                                                                                \
  static inline type heddle_floormod_##name(type a, type b) {                                      \
    const type rest = heddle_mod_##name(a, b);                                                     \
    return rest != 0 && (rest < 0) != (b < 0) ? (type)(rest + b) : rest;                           \
  }

HEDDLE_UNSIGNED_(uint8_t, u8, uint32_t)
HEDDLE_UNSIGNED_(uint16_t, u16, uint32_t)
HEDDLE_UNSIGNED_(uint32_t, u32, uint32_t)
HEDDLE_UNSIGNED_(uint64_t, u64, uint64_t)
HEDDLE_SIGNED_(int8_t, i8, uint32_t)
HEDDLE_SIGNED_(int16_t, i16, uint32_t)
HEDDLE_SIGNED_(int32_t, i32, uint32_t)
HEDDLE_SIGNED_(int64_t, i64, uint64_t)

/* ---- floats */

#ifdef FP_FAST_FMAF
#define HEDDLE_MULADD_F32_(a, b, c) fmaf(a, b, c)
#else
#define HEDDLE_MULADD_F32_(a, b, c) ((a) * (b) + (c))
#endif
#ifdef FP_FAST_FMA
#define HEDDLE_MULADD_F64_(a, b, c) fma(a, b, c)
#else
#define HEDDLE_MULADD_F64_(a, b, c) ((a) * (b) + (c))
#endif

/* Floats become integers by dropping the fraction; the range's nearest end for what lies outside, 0 for NaN. */
#define HEDDLE_WHOLE_(type, name, real, from, least, above, most)   \
  static inline type heddle_##name##_from_##from(real x) {          \
    if (!(x > (real)(least))) return x <= (real)(least) ? (least) : 0; \
    return x < (real)(above) ? (type)x : (most);                    \
  }

#define HEDDLE_FLOAT_(real, from, muladd)                                                     \
  static inline real heddle_muladd_##from(real a, real b, real c) { return muladd(a, b, c); }             \
  static inline real heddle_min_##from(real a, real b) { return a < b ? a : b; }                          \
  static inline real heddle_max_##from(real a, real b) { return a > b ? a : b; }                          \
  static inline real heddle_fminimum_##from(real a, real b) { return a != a ? a : a < b ? a : b; }        \
  static inline real heddle_fmaximum_##from(real a, real b) { return a != a ? a : a > b ? a : b; }        \
  static inline bool heddle_isnan_##from(real x) { return x != x; }                                       \
  static inline bool heddle_isfinite_##from(real x) { return x - x == 0; }                                \
  static inline bool heddle_isinf_##from(real x) { return x == x && x - x != 0; }                         \
  HEDDLE_WHOLE_(int8_t, i8, real, from, INT8_MIN, 128.0, INT8_MAX)                                        \
  HEDDLE_WHOLE_(int16_t, i16, real, from, INT16_MIN, 32768.0, INT16_MAX)                                  \
  HEDDLE_WHOLE_(int32_t, i32, real, from, INT32_MIN, 2147483648.0, INT32_MAX)                             \
  HEDDLE_WHOLE_(int64_t, i64, real, from, INT64_MIN, 9223372036854775808.0, INT64_MAX)                    \
  HEDDLE_WHOLE_(uint8_t, u8, real, from, 0, 256.0, UINT8_MAX)                                             \
  HEDDLE_WHOLE_(uint16_t, u16, real, from, 0, 65536.0, UINT16_MAX)                                        \
  HEDDLE_WHOLE_(uint32_t, u32, real, from, 0, 4294967296.0, UINT32_MAX)                                   \
  HEDDLE_WHOLE_(uint64_t, u64, real, from, 0, 18446744073709551616.0, UINT64_MAX)

HEDDLE_FLOAT_(float, f32, HEDDLE_MULADD_F32_)
HEDDLE_FLOAT_(double, f64, HEDDLE_MULADD_F64_)

static inline double heddle_exp10(double x) { return pow(10.0, x); }
static inline float heddle_exp10f(float x) { return (float)pow(10.0, (double)x); }

/* float16 and bfloat16 as their bits. */

static inline float heddle_from_bf16(uint16_t bits) { return heddle_f32_of_u32((uint32_t)bits << 16); }

static inline uint16_t heddle_to_bf16(float x) {
  const uint32_t bits = heddle_u32_of_f32(x);
  if (x != x) return (uint16_t)((bits >> 16) | 64);
  return (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

static inline float heddle_from_f16(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = (bits >> 10) & 31, fraction = bits & 0x3FF;
  if (exponent == 31) return heddle_f32_of_u32(sign | 0x7F800000 | fraction << 13 | (fraction != 0 ? 0x400000 : 0));
  if (exponent == 0) { /* fraction * 2**-24 is exact */
    const float size = (float)fraction * 5.9604644775390625e-8f;
    return sign != 0 ? -size : size;
  }
  return heddle_f32_of_u32(sign | (exponent + 112) << 23 | fraction << 13);
}

/* Of a double, so that what comes from float64 is rounded once. */
static inline uint16_t heddle_to_f16(double x) {
  const uint64_t bits = heddle_u64_of_f64(x);
  const uint16_t sign = (uint16_t)((bits >> 48) & 0x8000);
  const int32_t exponent = (int32_t)((bits >> 52) & 0x7FF) - 1023;
  const uint64_t fraction = (bits & UINT64_C(0xFFFFFFFFFFFFF)) | UINT64_C(0x10000000000000);
  uint64_t kept, rest, half;
  int32_t dropped;
  if (x != x) return (uint16_t)(sign | 0x7E00 | ((bits >> 42) & 0x3FF));
  if (exponent > 15) return (uint16_t)(sign | 0x7C00);
  if (exponent < -25) return sign;
  dropped = exponent < -14 ? 42 - 14 - exponent : 42; /* bits of the fraction below the last one kept */
  kept = fraction >> dropped;
  rest = fraction & ((UINT64_C(1) << dropped) - 1);
  half = UINT64_C(1) << (dropped - 1);
  kept += rest > half || (rest == half && (kept & 1) != 0);
  if (exponent >= -14) kept += (uint64_t)(exponent + 14) << 10; /* the leading one adds 1 to the exponent */
  return (uint16_t)(sign | kept);
}

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The C functions that csrc/ calls, declared for clang without the Windows headers. */
#define INFINITY ((float)(1e300 * 1e300))
#define HUGE_VAL ((double)INFINITY)
#define NAN (-(float)(INFINITY * 0.0f))

double ceil(double);
double copysign(double, double);
float copysignf(float, float);
double fabs(double);
float fabsf(float);
double floor(double);
double fma(double, double, double);
float fmaf(float, float, float);
double fmod(double, double);
double frexp(double, int *);
double ldexp(double, int);
float rintf(float);
double round(double);
float sqrtf(float);
double trunc(double);

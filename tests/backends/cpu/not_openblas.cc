// SPDX-License-Identifier: Apache-2.0
// A library with the entry points of OpenBLAS, compiled into those that test_cpu_openblas.cc has refused.
extern "C" {

char* openblas_get_config() {
  static char text[] = CONFIG;
  return text;
}
char* openblas_get_corename() {
  static char text[] = "None";
  return text;
}
int openblas_get_parallel() { return PARALLEL; }
int openblas_get_num_threads() { return 1; }
void openblas_set_num_threads(int) {}
#if WITH_SGEMM
void cblas_sgemm() {}
#endif

}

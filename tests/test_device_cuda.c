/* test_device_cuda.c - the CUDA device over a made-up driver (tests/doctor/fake_driver.c): tensor
 * maps of one form are encoded once and then get their addresses, one that was made before costs no
 * call, and the caller's context is left as found. */
#include "../runtime/device.h"
#include "fake.h"
#include "test.h"

#include <dlfcn.h>
#include <pthread.h>

enum { WORDS = ATTUNE__TENSORMAP_BYTES / 8 };

/* What the made-up driver counts. */
static int *pushes, *depth, *encoded, *replaced, *early;
static int (*push)(void *);
static int (*pop)(void **);
static int (*retain)(void **, int);
static attune__device *device;

/* The device finds the driver by its soname, for it is loaded already. */
static void open_device(void) {
  char folder[FAKE_PATH], line[256];
  fake_folder(folder);
  snprintf(line, sizeof line,
           "cc -Wall -Wextra -Werror -shared -fPIC -Wl,-soname,libcuda.so.1 -o %s/driver.so "
           "tests/doctor/fake_driver.c",
           folder);
  ck_assert_int_eq(system(line), 0);
  snprintf(line, sizeof line, "./%s/driver.so", folder);
  void *library = dlopen(line, RTLD_NOW | RTLD_LOCAL);
  ck_assert_msg(library != NULL, "%s", dlerror());
  fake_remove(folder);
  pushes = dlsym(library, "fake_pushes"), depth = dlsym(library, "fake_depth");
  encoded = dlsym(library, "fake_encoded"), replaced = dlsym(library, "fake_replaced");
  early = dlsym(library, "fake_early");
  *(void **)&push = dlsym(library, "cuCtxPushCurrent_v2");
  *(void **)&pop = dlsym(library, "cuCtxPopCurrent_v2");
  *(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
  ck_assert(pushes && depth && encoded && replaced && early && push && pop && retain);
  ck_assert_msg(attune__cuda_open(0, &device) == ATTUNE_OK, "%s", attune_error());
}

static attune__tensormap map_of(int heads, uint64_t base) {
  return (attune__tensormap){.type = ATTUNE__MAP_BF16,
                             .rank = 3,
                             .base = base,
                             .extent = {64, 1000, (uint64_t)heads},
                             .stride = {0, 128, 128000},
                             .box = {64, 128, 1},
                             .swizzle = ATTUNE__SWIZZLE_128};
}

/* Encodes, and looks at every word: promotion to 128 bytes is number 2. */
static void encode(const attune__tensormap *map) {
  _Alignas(64) uint64_t got[WORDS], want[WORDS] = {0};
  memset(got, 0xff, sizeof got);
  attune_status status = device->ops->encode_map(device, map, got);
  ck_assert_msg(status == ATTUNE_OK, "%s", attune_error());
  want[0] = map->base;
  want[1] = (uint64_t)map->type << 12 | (uint64_t)map->swizzle << 8 | 2 << 4 |
            (uint64_t)map->nan_fill << 1 | (uint64_t)map->rank << 20;
  for (uint32_t k = 0; k < map->rank; k++)
    want[2 + k] = map->extent[k], want[7 + k] = map->stride[k] << 16 | map->box[k];
  for (int i = 0; i < WORDS; i++) ck_assert_uint_eq(got[i], want[i]);
  ck_assert_int_eq(*depth, 0);
}

static void expect(int new_encoded, int new_replaced) {
  ck_assert_int_eq(*encoded, new_encoded);
  ck_assert_int_eq(*replaced, new_replaced);
  *encoded = *replaced = 0;
}

START_TEST(a_form_is_encoded_once) {
  attune__tensormap map = map_of(4, 0x10000);
  encode(&map);
  expect(1, 0);
  map.base = 0x20000;
  encode(&map);
  expect(0, 1);
}
END_TEST

/* As K and V of a launch are, again and again: two addresses of one form. */
START_TEST(a_map_that_was_there_costs_no_call) {
  const attune__tensormap k = map_of(6, 0x10000), v = map_of(6, 0x20000);
  encode(&k), encode(&v);
  expect(1, 1);
  for (int i = 0; i < 3; i++) encode(&k), encode(&v);
  expect(0, 0);
}
END_TEST

/* More addresses than are kept, as of many layers: no form is encoded again. */
START_TEST(many_addresses_are_of_one_form) {
  for (uint64_t i = 1; i <= 40; i++) {
    const attune__tensormap map = map_of(9, i << 16);
    encode(&map);
  }
  expect(1, 39);
}
END_TEST

/* Every field but the base tells forms apart. */
START_TEST(forms_are_not_mixed_up) {
  const attune__tensormap map = map_of(5, 0x10000);
  encode(&map);
  expect(1, 0);
  attune__tensormap other[] = {map, map, map, map, map, map, map};
  other[0].type = ATTUNE__MAP_F16;
  other[1].rank = 2;
  other[2].extent[2] = 6;
  other[3].stride[1] = 256;
  other[4].box[1] = 64;
  other[5].swizzle = ATTUNE__SWIZZLE_64;
  other[6].nan_fill = 1;
  for (int i = 0; i < 7; i++) encode(&other[i]);
  expect(7, 0);
  for (int i = 0; i < 7; i++) encode(&other[i]);
  encode(&map);
  expect(0, 0);
}
END_TEST

START_TEST(many_forms_push_out_the_oldest) {
  for (int round = 0; round < 2; round++)
    for (int heads = 100; heads < 140; heads++) {
      attune__tensormap map = map_of(heads, 0x10000);
      encode(&map);
    }
  expect(80, 0);
}
END_TEST

static void *encode_alone(void *map) {
  encode(map);
  return NULL;
}

START_TEST(threads_keep_their_own) {
  attune__tensormap map = map_of(7, 0x10000);
  encode(&map);
  for (int i = 0; i < 3; i++) {
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, encode_alone, &map), 0);
    pthread_join(thread, NULL);
  }
  expect(4, 0);
}
END_TEST

START_TEST(a_refused_map_is_not_kept) {
  _Alignas(64) unsigned char out[ATTUNE__TENSORMAP_BYTES];
  attune__tensormap map = map_of(8, 0x10008);
  ck_assert_int_eq(device->ops->encode_map(device, &map, out), ATTUNE_DRIVER);
  ck_assert_ptr_nonnull(strstr(attune_error(), "encoding a tensor map on Fake GPU 0"));
  map.base = 0x10000;
  encode(&map);
  expect(1, 0);
  map.base = 0x10008;
  for (int i = 0; i < 2; i++)
    ck_assert_int_eq(device->ops->encode_map(device, &map, out), ATTUNE_DRIVER);
  expect(0, 0);
}
END_TEST

/* In the device's own context nothing is pushed; from another one it is, and popped again. */
START_TEST(the_context_is_left_as_found) {
  void *own, *popped;
  int elsewhere;
  _Alignas(64) unsigned char out[ATTUNE__TENSORMAP_BYTES];
  const attune__launch_config config = {.grid = 1, .threads = 32, .cluster = 1};
  attune__tensormap map = map_of(9, 0x10000);
  struct attune__function *function = calloc(1, 256);
  ck_assert_int_eq(retain(&own, 0), 0);
  void *const contexts[] = {own, &elsewhere};
  for (int i = 0; i < 2; i++) {
    ck_assert_int_eq(push(contexts[i]), 0);
    *pushes = 0, map.base += 0x10000;
    ck_assert_int_eq(device->ops->encode_map(device, &map, out), ATTUNE_OK);
    ck_assert_int_eq(device->ops->launch(device, function, &config, out, 8, NULL), ATTUNE_OK);
    ck_assert_int_eq(*pushes, i ? 2 : 0);
    ck_assert_int_eq(*depth, 1);
    ck_assert_int_eq(pop(&popped), 0);
    ck_assert_ptr_eq(popped, contexts[i]);
  }
  free(function);
}
END_TEST

/* A kernel that waits itself is launched early, unless the environment says otherwise when the
 * device is opened. */
START_TEST(early_launches) {
  attune__device *patient;
  _Alignas(64) unsigned char params[8] = {0};
  attune__launch_config config = {.grid = 3, .threads = 32, .cluster = 1};
  struct attune__function *function = calloc(1, 256);
  setenv("ATTUNE_EARLY_LAUNCH", "0", 1);
  ck_assert_msg(attune__cuda_open(0, &patient) == ATTUNE_OK, "%s", attune_error());
  unsetenv("ATTUNE_EARLY_LAUNCH");
  for (config.early = 0; config.early < 2; config.early++) {
    *early = 0;
    ck_assert_int_eq(patient->ops->launch(patient, function, &config, params, 8, NULL), ATTUNE_OK);
    ck_assert_int_eq(*early, 0);
    ck_assert_int_eq(device->ops->launch(device, function, &config, params, 8, NULL), ATTUNE_OK);
    ck_assert_int_eq(*early, (int)config.early);
  }
  patient->ops->close(patient);
  free(function);
}
END_TEST

START_TEST(opens) {
  open_device();
}
END_TEST

START_TEST(closes) {
  device->ops->close(device);
}
END_TEST

TEST_MAIN("device cuda", opens, a_form_is_encoded_once, a_map_that_was_there_costs_no_call,
          many_addresses_are_of_one_form, forms_are_not_mixed_up, many_forms_push_out_the_oldest,
          threads_keep_their_own, a_refused_map_is_not_kept, the_context_is_left_as_found,
          early_launches, closes)

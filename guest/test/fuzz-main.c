// Runs the fuzzer's checks without libFuzzer: `fuzz ITERATIONS SEED` mutates the inputs given in hexadecimal, one a line, on
// standard input. The same seed makes the same inputs. With clang, `-fsanitize=fuzzer` and fuzz.c alone do the same and better.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS_MAX = 256, INPUT_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
  size_t length;
  uint8_t bytes[INPUT_MAX];
};

static struct input seeds[SEEDS_MAX];
static size_t seed_count;
static uint64_t random_state;

// xorshift64*: small, and the same everywhere.
static uint64_t next_random(void) {
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return random_state * 2685821657736338717ULL;
}

static size_t below(size_t limit) { return limit == 0 ? 0 : (size_t)(next_random() % limit); }

static void read_seeds(void) {
  static char line[2 * INPUT_MAX + 2];
  while (seed_count < SEEDS_MAX && fgets(line, sizeof line, stdin) != NULL) {
    struct input *seed = &seeds[seed_count++];
    unsigned value;
    while (seed->length < INPUT_MAX && sscanf(line + 2 * seed->length, "%2x", &value) == 1) {
      seed->bytes[seed->length++] = (uint8_t)value;
    }
  }
}

static void insert(struct input *input, size_t at, const uint8_t *bytes, size_t length) {
  if (length > INPUT_MAX - input->length) length = INPUT_MAX - input->length;
  memmove(input->bytes + at + length, input->bytes + at, input->length - at);
  memcpy(input->bytes + at, bytes, length);
  input->length += length;
}

static void delete(struct input *input, size_t at, size_t length) {
  if (length > input->length - at) length = input->length - at;
  memmove(input->bytes + at, input->bytes + at + length, input->length - at - length);
  input->length -= length;
}

// Numbers that limits and signs trip over, as they lie in four bytes.
static void put_number(struct input *input, size_t at) {
  static const uint32_t numbers[] = {0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
  uint32_t number = numbers[below(sizeof numbers / sizeof *numbers)];
  if (below(4) == 0) number = (uint32_t)(input->length - at) - (uint32_t)below(8);
  for (size_t i = 0; i < 4 && at + i < input->length; i++) input->bytes[at + i] = (uint8_t)(number >> (8 * i));
}

static void mutate(struct input *input) {
  size_t at = below(input->length);
  const struct input *other = &seeds[below(seed_count)];
  switch (input->length == 0 ? 3 : below(7)) {
    case 0:
      input->bytes[at] ^= (uint8_t)(1u << below(8));
      break;
    case 1:
      input->bytes[at] = (uint8_t)next_random();
      break;
    case 2:
      put_number(input, at);
      break;
    case 3: {
      size_t from = below(other->length);
      insert(input, at, other->bytes + from, below(other->length - from + 1));
      break;
    }
    case 4:
      delete(input, at, 1 + below(16));
      break;
    case 5:
      // The type of a frame.
      if (input->length > 4) input->bytes[4] = (uint8_t)(below(0x30));
      break;
    default:
      // A length that fits again, so that mutations inside the payload are reached.
      if (input->length > 9) {
        uint32_t length = (uint32_t)input->length - 9;
        for (size_t i = 0; i < 4; i++) input->bytes[i] = (uint8_t)(length >> (8 * i));
      }
      break;
  }
}

int main(int count, char **arguments) {
  if (count != 3) {
    fprintf(stderr, "usage: fuzz ITERATIONS SEED < inputs\n");
    return 2;
  }
  unsigned long iterations = strtoul(arguments[1], NULL, 10);
  random_state = strtoull(arguments[2], NULL, 10) | 1;
  read_seeds();
  if (seed_count == 0) return 2;
  for (size_t i = 0; i < seed_count; i++) LLVMFuzzerTestOneInput(seeds[i].bytes, seeds[i].length);
  static struct input input;
  for (unsigned long i = 0; i < iterations; i++) {
    input = seeds[below(seed_count)];
    for (size_t mutations = 1 + below(6); mutations > 0; mutations--) mutate(&input);
    LLVMFuzzerTestOneInput(input.bytes, input.length);
  }
  printf("%lu inputs\n", iterations + seed_count);
  return 0;
}

// In a directory of its own, so that its path is made of three parts.
static inline unsigned mix(unsigned h, unsigned v) {
  h ^= v; h *= 0x01000193u; if (h & 1) h = h >> 1 ^ 0x9e3779b9u; return h;
}

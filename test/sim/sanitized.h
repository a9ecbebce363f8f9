/* TEST_SANITIZED is defined if a sanitizer makes the program many times slower.
 * gcc defines macros for this, and clang has __has_feature. */
#ifndef MRAIL_TEST_SANITIZED_H
#define MRAIL_TEST_SANITIZED_H

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif

#endif

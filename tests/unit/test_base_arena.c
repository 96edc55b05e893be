/* The arena: alignment, clearing, marks, few calls of the allocator, failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "support/fault_host.h"

#include <string.h>

typedef struct fixture {
    fault_host f;
    cr_host host;
    cr_arena arena;
} fixture;

static int setup(void **state)
{
    static fixture x;
    fault_init(&x.f);
    if (cr_host_set(&x.host, &x.f.host, NULL) != CERA_OK)
        return -1;
    cr_arena_init(&x.arena, &x.host, CR_MEM_FILE);
    *state = &x;
    return 0;
}

static int teardown(void **state)
{
    fixture *x = *state;
    cr_arena_done(&x->arena);
    const char *fault = fault_check(&x->f);
    if (fault != NULL)
        print_error("%s\n", fault);
    bool balanced = cr_host_live(&x->host) == 0;
    fault_done(&x->f);
    return fault == NULL && balanced ? 0 : -1;
}

static bool is_zero(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

static void pieces_are_aligned_cleared_and_apart(void **state)
{
    fixture *x = *state;
    enum { N = 3000 };
    static char *pieces[N];
    for (size_t i = 0; i < N; i++) {
        size_t size = i % 97;
        pieces[i] = cr_arena_alloc(&x->arena, size);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        assert_true(is_zero(pieces[i], size));
        memset(pieces[i], (int)(i % 251), size);
    }
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < i % 97; k++)
            assert_int_equal((unsigned char)pieces[i][k], i % 251);
    /* 3,000 pieces of 160 KB together, in blocks of 4, 8, 16, ... KB. */
    assert_true(fault_calls(&x->f, FAULT_ALLOC) <= 7);
    assert_int_equal(cr_host_live(&x->host), fault_live_bytes(&x->f));
}

static void an_empty_piece_is_a_place_of_its_own(void **state)
{
    fixture *x = *state;
    void *a = cr_arena_alloc(&x->arena, 0), *b = cr_arena_alloc(&x->arena, 0);
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
}

static void large_pieces_get_their_size(void **state)
{
    fixture *x = *state;
    char *large = cr_arena_alloc(&x->arena, 5 << 20);
    assert_non_null(large);
    large[0] = large[(5 << 20) - 1] = 1;
    assert_true(fault_live_bytes(&x->f) <= (5 << 20) + 128);
    assert_null(fault_misuse(&x->f));
}

static void sizes_that_wrap_are_refused(void **state)
{
    fixture *x = *state;
    assert_null(cr_arena_alloc(&x->arena, SIZE_MAX));
    assert_null(cr_arena_alloc(&x->arena, SIZE_MAX - 15));
    assert_null(cr_arena_alloc(&x->arena, SIZE_MAX - 63));
    assert_null(cr_arena_array(&x->arena, SIZE_MAX / 8 + 2, 8));
    assert_null(cr_arena_copy(&x->arena, "", SIZE_MAX));
    assert_int_equal(fault_live_pieces(&x->f), 0);
    assert_non_null(cr_arena_array(&x->arena, 10, 8));
    assert_non_null(cr_arena_array(&x->arena, 0, 8));
}

static void copies_end_in_nul(void **state)
{
    fixture *x = *state;
    char *copy = cr_arena_copy(&x->arena, "0123456789abcdefgh", 16);
    assert_non_null(copy);
    assert_string_equal(copy, "0123456789abcdef");
    assert_string_equal(cr_arena_copy(&x->arena, NULL, 0), "");
}

static void marks_give_back_and_clear_again(void **state)
{
    fixture *x = *state;
    cr_arena_mark empty = cr_arena_get_mark(&x->arena);
    char *kept = cr_arena_copy(&x->arena, "kept", 4);
    cr_arena_mark mark = cr_arena_get_mark(&x->arena);
    size_t live = fault_live_bytes(&x->f);

    char *first = cr_arena_alloc(&x->arena, 100);
    assert_non_null(first);
    memset(first, 0x55, 100);
    for (int i = 0; i < 100; i++)
        assert_non_null(cr_arena_alloc(&x->arena, 1000));
    cr_arena_to_mark(&x->arena, mark);
    assert_int_equal(fault_live_bytes(&x->f), live);
    assert_string_equal(kept, "kept");

    char *again = cr_arena_alloc(&x->arena, 100);
    assert_ptr_equal(again, first);
    assert_true(is_zero(again, 100));

    cr_arena_to_mark(&x->arena, empty);
    assert_int_equal(fault_live_pieces(&x->f), 0);
}

static void a_failed_piece_leaves_the_arena_usable(void **state)
{
    fixture *x = *state;
    char *kept = cr_arena_copy(&x->arena, "kept", 4);
    fault_allocs(&x->f, 1, FAULT_ONCE);
    assert_null(cr_arena_alloc(&x->arena, 1 << 20));
    assert_int_equal(fault_hits(&x->f), 1);
    assert_string_equal(kept, "kept");
    assert_non_null(cr_arena_alloc(&x->arena, 1 << 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pieces_are_aligned_cleared_and_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(an_empty_piece_is_a_place_of_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(large_pieces_get_their_size, setup, teardown),
        cmocka_unit_test_setup_teardown(sizes_that_wrap_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_end_in_nul, setup, teardown),
        cmocka_unit_test_setup_teardown(marks_give_back_and_clear_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_piece_leaves_the_arena_usable, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

"""What is kept, and what is found."""

from outrider_vllm.messages import Guess, pack_ids
from outrider_vllm.store import Key, Store


def key(text: list[int]) -> Key:
    return len(text), pack_ids(text[-16:])


TEXT = list(range(100, 130))


def test_a_text_that_grew_into_a_guess_finds_the_rest() -> None:
    store = Store()
    store.add(Guess.after(TEXT, [1, 2, 3, 4]))
    for grown in range(4):
        rest = [1, 2, 3, 4][grown:]
        assert store.find(key(TEXT + [1, 2, 3, 4][:grown]), 8) == rest
        assert store.find(key(TEXT + [1, 2, 3, 4][:grown]), 2) == rest[:2]
    assert store.find(key([*TEXT, 2]), 8) == []
    assert store.find(key([*TEXT, 1, 2, 3, 4]), 8) == []


def test_short_texts_are_known_by_all_their_ids() -> None:
    store = Store()
    store.add(Guess.after([], [9, 8]))
    store.add(Guess.after([5], [6]))
    assert store.find(key([]), 8) == [9, 8]
    assert store.find(key([9]), 8) == [8]
    assert store.find(key([5]), 8) == [6]


def test_groups_join() -> None:
    store = Store()
    for start in range(0, 40, 4):
        store.add(Guess.after(TEXT + list(range(start)), list(range(start, start + 4))))
    assert store.find(key(TEXT), 33) == list(range(33))
    assert store.find(key([*TEXT, 0]), 3) == [1, 2, 3]


def test_the_first_stays_and_a_longer_one_that_begins_alike_replaces_it() -> None:
    store = Store()
    store.add(Guess.after(TEXT, [1]))
    store.add(Guess.after(TEXT, [2, 5]))
    assert store.find(key(TEXT), 8) == [1]
    assert store.find(key([*TEXT, 2]), 8) == [5]
    store.add(Guess.after(TEXT, [1, 7, 8]))
    assert store.find(key(TEXT), 8) == [1, 7, 8]
    store.add(Guess.after(TEXT, [1, 6]))
    assert store.find(key(TEXT), 8) == [1, 7, 8]
    # Once rejected it is still offered, until there is another.
    store.rejected(key(TEXT))
    assert store.find(key(TEXT), 8) == [1, 7, 8]
    store.add(Guess.after(TEXT, [1, 6]))
    assert store.find(key(TEXT), 8) == [1, 7, 8]
    store.add(Guess.after(TEXT, [2, 5]))
    assert store.find(key(TEXT), 8) == [2, 5]
    store.add(Guess.after(TEXT, [3]))
    assert store.find(key(TEXT), 8) == [2, 5]
    store.rejected(key([0]))


def test_texts_that_agree_in_length_and_end_share_guesses() -> None:
    store = Store()
    store.add(Guess.after(TEXT, [1]))
    assert store.find(key([7] * 14 + TEXT[14:]), 8) == [1]
    assert store.find(key(TEXT[14:]), 8) == []
    assert store.find(key([*TEXT[:14], 7, *TEXT[15:]]), 8) == []


def test_a_cycle_ends_at_the_limit() -> None:
    store = Store()
    store.add(Guess.after([4] * 20, [4] * 32))
    assert store.find(key([4] * 20), 50) == [4] * 32


def test_the_oldest_go_first() -> None:
    store = Store(max_keys=100)
    for position in range(1000):
        store.add(Guess.after([*TEXT, *([0] * position)], [1, 2]))
        assert len(store) <= 100
    assert store.find(key(TEXT), 8) == []
    assert store.find(key([*TEXT, *([0] * 999)]), 8) == [1, 2]

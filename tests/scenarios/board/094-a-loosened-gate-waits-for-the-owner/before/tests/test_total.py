def test_total():
    assert total() == 1

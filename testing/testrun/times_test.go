package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
)

func TestTimes(t *testing.T) {
	all := newTally(io.Discard)
	all.passed = []result{
		{pkg: module + "stat", test: "TestShort", elapsed: 1},
		{pkg: module + "cli", test: "TestLong", elapsed: 9},
		{pkg: module + "cli", test: "TestLong/part", elapsed: 8},
		{pkg: "page", elapsed: 4}, // a step
	}
	all.minutes["stat"], all.minutes["cli"] = 0.1, 0.2
	u := all.lab("cluster")
	u.starts, u.upS, u.seconds["cli"], u.seconds["lab"] = 1, 20, 3, 5
	want := times{Schema: 1, Mode: modeTest, Seconds: 60,
		Packages: []timed{{"cli", 12}, {"stat", 6}},
		Labs:     []labTime{{"cluster", 1, 20, []timed{{"lab", 5}, {"cli", 3}}}},
		Tests:    []testTime{{"cli", "TestLong", 9}, {"stat", "TestShort", 1}},
	}
	got := all.times(modeTest, time.Minute)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	path := filepath.Join(t.TempDir(), "times.json")
	must.OK(t, got.write(path))
	text, err := os.ReadFile(path)
	must.OK(t, err)
	var read times
	if err := json.Unmarshal(text, &read); err != nil || !reflect.DeepEqual(read, want) {
		t.Errorf("read back %+v (%v)", read, err)
	}
}

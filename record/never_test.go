package record

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestTimes(t *testing.T) {
	for text, want := range map[string]Times{
		"null": nil, "[]": {}, "[-1,null,0]": {-1, Never, 0}, " [ 5 , null ] ": {5, Never}, "[9223372036854775807]": {1<<63 - 1},
	} {
		var got Times
		if err := json.Unmarshal([]byte(text), &got); err != nil || !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"[1.5]", `["1"]`, "{}", "5", "[[1]]", "[true]", `"null"`} {
		var got Times
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s is taken for %v", text, got)
		}
	}
}

func FuzzTimes(f *testing.F) {
	f.Add("[1,null,-1]")
	f.Fuzz(func(t *testing.T, text string) {
		var times, back Times
		if json.Unmarshal([]byte(text), &times) != nil {
			return
		}
		data, err := json.Marshal(times)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if err := json.Unmarshal(data, &back); err != nil || !slices.Equal(back, times) {
			t.Errorf("%q came back as %v, %v", data, back, err)
		}
	})
}

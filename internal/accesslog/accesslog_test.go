package accesslog

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
)

func TestFind(t *testing.T) {
	for name, want := range map[string]Field{
		"start_time": Start, "startTime": Start, "@timestamp": Start, "time": Start, "Start-Time": Start,
		"response_code": Status, "responseCode": Status, "status": Status, "status_code": Status, "code": Status,
		"http.status_code": Status, "http.response.status_code": Status, "response.code": Status,
		"upstream_cluster": Cluster, "upstream.cluster": Cluster, "UPSTREAM_CLUSTER": Cluster,
		"upstream_host": Host, ":authority": Authority, "x-request-id": RequestID, "duration_ms": Duration,
		"response_code_details": Details, "path": Other, "": Other, "cluster": Other, "status%": Other, strings.Repeat("status", 99): Other,
	} {
		if got, _ := Find([]byte(name)); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	for field, all := range names {
		for rank, name := range all {
			if f, r := Find([]byte(name)); int(f) != field || r != rank || len(name) > longestName {
				t.Errorf("%s: field %d, rank %d, want %d and %d", name, f, r, field, rank)
			}
		}
	}
}

// The table in docs/assess.md has the names that are recognized.
func TestNamesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/assess.md")
	must.OK(t, err)
	for title, field := range map[string]Field{"upstream cluster": Cluster, "start": Start, "response code": Status, "response flags": Flags, "authority": Authority, "server name": ServerName} {
		_, row, _ := strings.Cut(string(text), "\n| "+title+" |")
		row, _, _ = strings.Cut(row, "\n")
		var listed []string
		for i, name := range strings.Split(row, "`") {
			if i%2 == 1 {
				short, _ := plain(make([]byte, 0, longestName), []byte(name))
				listed = append(listed, string(short))
			}
		}
		if !slices.Equal(listed, names[field]) {
			t.Errorf("%s: docs/assess.md has %v, the table %v", title, listed, names[field])
		}
	}
}

func TestTime(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-24T03:14:15.926Z":              "2026-11-24T03:14:15.926Z",
		"2026-11-24T04:14:15.926535897+01:00":   "2026-11-24T03:14:15.926535897Z",
		"[2026-11-24T03:14:15.926Z] ":           "2026-11-24T03:14:15.926Z",
		"2026-11-24T04:14:15+0100":              "2026-11-24T03:14:15Z",
		"2026/11/24T04:14:15+0100":              "2026-11-24T03:14:15Z",
		"2026/11/24T04:14:15+0100 1795490055":   "2026-11-24T03:14:15Z",
		"2026/11/24T04:14:15+0100 1795490055.5": "2026-11-24T03:14:15.5Z",
		"2026-11-24 03:14:15.926":               "2026-11-24T03:14:15.926Z",
		"2026-11-24 04:14:15 +0100":             "2026-11-24T03:14:15Z",
		"24/Nov/2026:04:14:15 +0100":            "2026-11-24T03:14:15Z",
		"1795490055":                            "2026-11-24T03:14:15Z",
		"1795490055.926":                        "2026-11-24T03:14:15.926Z",
		"1795490055.926535897":                  "2026-11-24T03:14:15.926535897Z",
		"1795490055.9265358979":                 "2026-11-24T03:14:15.926535897Z",
		"1795490055926":                         "2026-11-24T03:14:15.926Z",
		"1795490055926.5":                       "2026-11-24T03:14:15.9265Z",
		"1795490055926535":                      "2026-11-24T03:14:15.926535Z",
		"1795490055926535897":                   "2026-11-24T03:14:15.926535897Z",
		"1.795490055e9":                         "2026-11-24T03:14:15Z",
		"1.795490055926e+12":                    "2026-11-24T03:14:15.926Z",
		"1.7954900555e+09":                      "2026-11-24T03:14:15.5Z",
		"2e10":                                  "", // seconds beyond int64 nanoseconds
		"2e13":                                  "",
		"0":                                     "1970-01-01T00:00:00Z",
		"":                                      "", "-": "", "-1": "", "soon": "", "1795490055.9x": "", "1795490055,9": "", "1e400": "", "NaN": "", "Inf": "",
		"9999999999": "", "18446744073709551615": "", "2026-13-24T03:14:15Z": "", "3026-11-24T03:14:15Z": "", "1026-11-24T03:14:15Z": "",
		"+1795490055": "", "0x1p3": "",
	} {
		ns, ok := Time(text)
		got := ""
		if ok {
			got = time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "503": 503, "503.0": 503, "5.03e2": 503, "9223372036854775807": math.MaxInt64,
		"": -1, "-": -1, "-5": -1, "5.5": -1, "1e99": -1, "NaN": -1, "five": -1, "9223372036854775808": -1} {
		n, ok := Number(text)
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("%q: %d, want %d", text, n, want)
		}
	}
	for text, want := range map[string]bool{"0": true, "200": true, "999": true, "1": false, "1000": false, "": false} {
		if _, ok := StatusCode(text); ok != want {
			t.Errorf("status %q: %v", text, ok)
		}
	}
}

func TestAddress(t *testing.T) {
	for host, want := range map[string]string{
		"10.1.0.7:8080": "10.1.0.7:8080",
		"envoy://connect_originate/10.1.0.7:8080":       "10.1.0.7:8080",
		"envoy://connect_originate/[fd00::7]:8080":      "[fd00::7]:8080",
		"envoy://inner_connect_originate/10.1.0.7:8080": "10.1.0.7:8080",
		"envoy://connect_originate/":                    "envoy://connect_originate/",
		"envoy://internal_client_address/":              "envoy://internal_client_address/",
		"envoy://connect_originate/db.example.com:5432": "envoy://connect_originate/db.example.com:5432",
		"envoy://":          "envoy://",
		"/var/run/app.sock": "/var/run/app.sock",
		"":                  "",
	} {
		if got := Address(host); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}

// flat returns what Scan must report for a value that a general decoder read.
func flat(prefix string, v map[string]json.RawMessage, levels int, to map[string]string) bool {
	if levels == 0 {
		return false
	}
	for key, raw := range v {
		switch raw[0] {
		case '{':
			var inner map[string]json.RawMessage
			if json.Unmarshal(raw, &inner) != nil || !flat(prefix+key+".", inner, levels-1, to) {
				return false
			}
		case '[':
		case '"':
			var text string
			_ = json.Unmarshal(raw, &text)
			to[prefix+key] = text
		case 'n':
			to[prefix+key] = "<null>"
		default:
			to[prefix+key] = string(raw)
		}
	}
	return true
}

// FuzzScan checks that a general decoder accepts what the scanner accepts, with the same
// values, and that the scanner accepts objects that a general decoder accepts.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{`{}`, ` { "a" : "b\n\u00e9" , "c":null,"d":-1.5e3,"e":true}`, `{"a":{"b":1,"c":{}}}`, `{"a":[1,"]",{"b":[]}],"c":2}`, `{"a":1,}`, `{"a":01}`, "{\"a\":\"\xff\"}", `{"a":"x"}y`, `{"a" 1}`, `{"a":[1}`,
		strings.Repeat(`{"a":`, maxNested) + "1" + strings.Repeat("}", maxNested), strings.Repeat(`{"a":`, maxNested+1) + "1" + strings.Repeat("}", maxNested+1)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, paths := map[string]string{}, 0
		ok := Scan(text, func(path, value []byte) {
			paths++
			if value == nil {
				value = []byte("<null>")
			}
			got[string(path)] = string(value)
		})
		var decoded map[string]json.RawMessage
		want := map[string]string{}
		object := json.Unmarshal(text, &decoded) == nil && decoded != nil && flat("", decoded, maxNested, want)
		if ok && !json.Valid(text) || object != ok && !repeats(text) {
			t.Fatalf("%q: scanned %v, object %v", text, ok, object)
		}
		if !ok || repeats(text) {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %v, want %v", text, got, want)
		}
		for path, value := range want {
			if got[path] != value {
				t.Fatalf("%q: %q is %q, want %q", text, path, got[path], value)
			}
		}
	})
}

// repeats reports whether a path may occur twice: a decoder into a map does not return the
// first value.
func repeats(text []byte) bool {
	seen := map[string]bool{}
	twice := false
	Scan(text, func(path, _ []byte) {
		twice = twice || seen[string(path)]
		seen[string(path)] = true
	})
	// Lists and empty objects have no path here, and a key may contain a dot.
	keys := map[string]int{}
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if err != nil {
			break
		}
		if s, ok := token.(string); ok {
			keys[s]++
			twice = twice || keys[s] > 1 || strings.Contains(s, ".")
		}
	}
	return twice
}

// FuzzValues checks that no text crashes the readers of values, and that accepted values are
// within bounds.
func FuzzValues(f *testing.F) {
	for _, seed := range []string{"1795490055.926", "2026-11-24T03:14:15.926Z", "1e18", "envoy://a/1.2.3.4:5", "5.03e2", "responseCode", "2026/11/24T04:14:15+0100 1795490055"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if ns, ok := Time(text); ok && (ns < 0 || time.Unix(0, ns).UTC().Year() >= lastYear) {
			t.Errorf("%q is the time %d", text, ns)
		}
		if n, ok := Number(text); ok && n < 0 {
			t.Errorf("%q is the number %d", text, n)
		}
		if a := Address(text); a != text && Address(a) != a {
			t.Errorf("%q is the address %q", text, a)
		}
		Find([]byte(text))
	})
}

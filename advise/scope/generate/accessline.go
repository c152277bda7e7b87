package generate

import (
	"bytes"
	"cmp"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/internal/accesslog"
)

// entry is what one line says.
type entry struct {
	cluster, authority string
	at                 time.Time
	ended              ending
	own                bool // the line has the form of Istio's text, be its cluster who it may
	loose              looseness
}

// ending is how a request ended.
type ending int

const (
	endUnknown ending = iota
	endSucceeded
	endFailed
)

// endOf reads a response code and response flags, as far as a line has them. Of
// a connection without requests the code is 0, and its flags say whether it
// failed; a caller that went away before the answer (DC, DR) proves nothing.
// See envoyproxy.io/docs, Access logging, RESPONSE_FLAGS.
func endOf(code, flags string) ending {
	switch n, ok := accesslog.StatusCode(code); {
	case !ok:
		return endUnknown
	case n >= 400:
		return endFailed
	case n > 0 || flags == "-":
		return endSucceeded
	}
	switch flags {
	case "", "DC", "DR", "DownstreamConnectionTermination", "DownstreamRemoteReset":
		return endUnknown
	}
	return endFailed
}

// firstYear is when times in logs begin: before it there was no Envoy, and the
// field is not a time.
const firstYear = 2010

// timeOf reads when a request began; the zero time if the text does not say.
func timeOf(text string) time.Time {
	if ns, ok := accesslog.Time(text); ok {
		if t := time.Unix(0, ns).UTC(); t.Year() >= firstYear {
			return t
		}
	}
	return time.Time{}
}

// jsonEntry reads a line of JSON. ok is false for a line that is no JSON, has
// no upstream cluster, or has two that differ: where the format is a text, a
// client may have written one of them.
func jsonEntry(line []byte) (e entry, ok bool) {
	type value struct {
		text string
		rank int
	}
	var of [accesslog.Attempts + 1]value
	found, several := false, false
	whole := accesslog.Scan(line, func(path, text []byte) {
		field, rank := accesslog.Find(path)
		switch field {
		case accesslog.Cluster:
			cluster := strings.TrimSuffix(string(text), ";")
			several = several || found && cluster != e.cluster
			e.cluster, found = cluster, true
			return
		case accesslog.Start:
			if timeOf(string(text)).IsZero() {
				return
			}
		case accesslog.Status:
			if _, ok := accesslog.StatusCode(string(text)); !ok {
				return
			}
		case accesslog.Flags:
			if len(text) == 0 {
				text = []byte("-")
			}
		case accesslog.Authority, accesslog.ServerName:
			if accesslog.Missing(text) {
				return
			}
		default:
			return
		}
		if known := of[field]; known.text == "" || rank < known.rank {
			of[field] = value{string(text), rank}
		}
	})
	if !whole {
		return entry{}, false
	}
	e.at = timeOf(of[accesslog.Start].text)
	e.authority = cmp.Or(of[accesslog.Authority].text, of[accesslog.ServerName].text)
	e.ended = endOf(of[accesslog.Status].text, of[accesslog.Flags].text)
	return e, found && !several && isCluster(e.cluster)
}

// textEntry reads a line of Istio's text format from its end, because what
// stands before is the client's to choose and Envoy escapes no quotes:
//
//	[TIME] "METHOD PATH..." ... "AUTHORITY" "UPSTREAM" CLUSTER LOCAL LOCAL REMOTE SERVER-NAME ROUTE
func textEntry(line []byte) (e entry, ok bool) {
	rest, found := bytes.CutPrefix(line, []byte("["))
	if !found {
		return e, false
	}
	at, _, found := bytes.Cut(rest, []byte("]"))
	if !found {
		return e, false
	}
	if e.at = timeOf(string(at)); e.at.IsZero() {
		return e, false
	}
	var tail [6][]byte
	for i := 5; i >= 0; i-- {
		space := bytes.LastIndexByte(line, ' ')
		if space < 0 {
			return e, false
		}
		tail[i], line = line[space+1:], line[:space]
	}
	e.cluster = strings.TrimSuffix(string(tail[0]), ";")
	if parts := bytes.SplitN(line, []byte(`"`), 4); len(parts) > 3 { // quotes in the path hide it
		if words := strings.Fields(string(parts[2])); len(words) > 1 {
			e.ended = endOf(words[0], words[1])
		}
	}
	// A client may name its server, the last field but one, so that fields
	// shift: what stands here must be a cluster, after a quote, and no other
	// may be in the line.
	if !isCluster(e.cluster) || !bytes.HasSuffix(line, []byte(`"`)) {
		return e, false
	}
	e.own = e.cluster != "" && isAddress(tail[1]) && isAddress(tail[2]) && isAddress(tail[3])
	if len(clustersIn(line)) > 0 {
		return e, false
	}
	for i := 1; i < 6; i++ {
		if len(clustersIn(tail[i])) > 0 {
			return e, false
		}
	}
	if !passthrough[e.cluster] {
		return e, true
	}
	if parts := bytes.Split(line, []byte(`"`)); len(parts) >= 5 {
		e.authority = string(parts[len(parts)-4])
	}
	if e.authority == "" || e.authority == "-" {
		e.authority = string(tail[4])
	}
	return e, true
}

// isAddress says whether a word is what stands for an address in a log.
func isAddress(word []byte) bool {
	return string(word) == "-" || bytes.ContainsRune(word, ':') && !bytes.ContainsAny(word, "|\"")
}

// isCluster says whether a word may be the name of a cluster.
func isCluster(word string) bool {
	return word == "" || word == "-" || len(word) <= longestCluster && !strings.ContainsAny(word, "\" \t{}")
}

// isHost says whether a word may be the host of a Service or ServiceEntry.
func isHost(word string) bool {
	if strings.Trim(word, ".") == "" || len(word) > 253 {
		return false
	}
	for _, c := range word {
		if c != '.' && c != '-' && c != '_' && c != '*' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// directions are how the names of a service's clusters begin. The other
// spelling of such names (outbound_.80_._.HOST) is the server name by which
// sidecars call each other: it is in the log of the workload that was called.
var directions = [][]byte{[]byte("outbound|"), []byte("inbound|")}

// endOfCluster are the characters that end the name of a cluster.
const endOfCluster = "\" \t,;{}\\'"

// longestCluster is how long the name of a cluster may be: more is none, and no search for
// its end goes further.
const longestCluster = 1024

// clustersIn are the names of clusters in a text, each once.
func clustersIn(line []byte) []string {
	var found []string
	known := map[string]bool{}
	for _, direction := range directions {
		for from := 0; ; {
			i := bytes.Index(line[from:], direction)
			if i < 0 {
				break
			}
			begin := from + i
			end := min(begin+longestCluster+1, len(line))
			if n := bytes.IndexAny(line[begin:end], endOfCluster); n >= 0 {
				end = begin + n
			}
			name := string(line[begin:end])
			if _, _, _, host, ok := scope.SplitCluster(name); ok && len(name) <= longestCluster && !known[name] && (host == "" || isHost(host)) {
				known[name] = true
				found = append(found, name)
			}
			from = begin + len(direction)
		}
	}
	return found
}

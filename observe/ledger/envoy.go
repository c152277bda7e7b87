package ledger

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/meshtrial/meshtrial/internal/accesslog"
	"github.com/meshtrial/meshtrial/internal/lines"
)

// Fields has the names of the access log fields and their Envoy command operators, as an Istio
// access log provider takes them (logFormat.labels). Names are short because kubelet rotates a
// container's log at 10 MiB by default. All operators have been in Envoy's documentation of its
// substitution formatter since version 1.31. US is its only duration with sub-millisecond
// resolution and is absent if the caller hung up.
var Fields = [][2]string{
	{"id", "%REQ(X-REQUEST-ID)%"},
	{"start", "%START_TIME(%s.%9f)%"},
	{"us", "%COMMON_DURATION(DS_RX_BEG:DS_TX_END:us)%"},
	{"ms", "%DURATION%"},
	{"status", "%RESPONSE_CODE%"},
	{"grpc", "%GRPC_STATUS_NUMBER%"},
	{"flags", "%RESPONSE_FLAGS%"},
	{"details", "%RESPONSE_CODE_DETAILS%"},
	{"closed", "%CONNECTION_TERMINATION_DETAILS%"},
	{"transport", "%UPSTREAM_TRANSPORT_FAILURE_REASON%"},
	{"cluster", "%UPSTREAM_CLUSTER_RAW%"},
	{"authority", "%REQ(:AUTHORITY)%"},
	{"local", "%DOWNSTREAM_LOCAL_ADDRESS%"},
	{"host", "%UPSTREAM_HOST%"},
	{"attempts", "%UPSTREAM_REQUEST_ATTEMPT_COUNT%"},
	{"attempt", "%REQ(X-ENVOY-ATTEMPT-COUNT)%"},
}

// attemptKind marks lines of the attempt log, in attemptField.
const (
	attemptField = "kind"
	attemptKind  = "attempt"
)

// AttemptFields has the fields of an attempt log: the upstream_log of Envoy's router filter, with
// one line per upstream attempt and its own time, host and flags. Istio's APIs cannot configure it,
// but an EnvoyFilter can.
var AttemptFields = [][2]string{
	{attemptField, attemptKind},
	{"id", "%REQ(X-REQUEST-ID)%"},
	{"start", "%START_TIME(%s.%9f)%"},
	{"ms", "%DURATION%"},
	{"status", "%RESPONSE_CODE%"},
	{"flags", "%RESPONSE_FLAGS%"},
	{"transport", "%UPSTREAM_TRANSPORT_FAILURE_REASON%"},
	{"cluster", "%UPSTREAM_CLUSTER_RAW%"},
	{"host", "%UPSTREAM_HOST%"},
	{"attempt", "%REQ(X-ENVOY-ATTEMPT-COUNT)%"},
}

// ownName is a name from Fields or AttemptFields, with a number and its rank among the names of its
// field.
type ownName struct {
	name   string
	number int
	rank   uint8
}

// Ranks of names. Those of package accesslog lie in between.
const (
	firstRank = 1
	lastRank  = math.MaxUint8
)

var ownNames = func() map[string]ownName {
	all := map[string]ownName{attemptField: {attemptField, 0, firstRank}}
	for i, f := range Fields {
		all[f[0]] = ownName{f[0], i + 1, ownRank(f[0])}
	}
	return all
}()

// ownRank returns the rank of one of our names: the highest, unless other logs use the name more
// loosely. There, status may be text alongside response_code, and host may be the authority
// alongside upstream_host.
func ownRank(name string) uint8 {
	switch field, rank := accesslog.Find([]byte(name)); ofOthers[field] {
	case "":
		return firstRank
	case name:
		return rankOf(rank)
	}
	return lastRank
}

// rankOf returns the rank of a name from package accesslog.
func rankOf(rank int) uint8 { return uint8(firstRank + 1 + rank) }

// ofOthers maps the fields of other log formats to our names.
var ofOthers = map[accesslog.Field]string{
	accesslog.RequestID: "id", accesslog.Start: "start", accesslog.Duration: "ms", accesslog.Status: "status", accesslog.GRPC: "grpc",
	accesslog.Flags: "flags", accesslog.Details: "details", accesslog.Closed: "closed", accesslog.Transport: "transport",
	accesslog.Cluster: "cluster", accesslog.Authority: "authority", accesslog.Local: "local", accesslog.Host: "host", accesslog.Attempts: "attempts",
}

// Source describes whose access log is read.
type Source struct {
	Service, Pod string
	// Addresses of the pod. A line without a cluster is inbound if it was sent to one of them.
	Addresses []string
	// Prefix of the wanted IDs; the default is IDPrefix.
	Prefix string
	// ZeroNS is the Unix time of the zero of the book's clock.
	ZeroNS int64
}

// Lines counts the lines that ReadEnvoy encountered.
type Lines struct {
	Entries int64 // passed on
	Other   int64 // access log lines of requests with other IDs or none
	Foreign int64 // other output of the container
	Damaged int64 // started like an access log line with one of our IDs, but unreadable
}

// Add adds other's counts.
func (l *Lines) Add(other Lines) {
	l.Entries += other.Entries
	l.Other += other.Other
	l.Foreign += other.Foreign
	l.Damaged += other.Damaged
}

// maxLine is the maximum length of a line; longer ones are not ours.
const maxLine = 1 << 16

// maxShared limits the number of shared texts.
const maxShared = 1 << 14

// ReadEnvoy reads an access log in the format of Fields, or in another JSON format whose names
// package accesslog knows, such as Istio's own. It calls each for every line whose request has one
// of our IDs. The log is streamed and not retained. Lines share memory for common texts. The error
// is that of the reader.
func ReadEnvoy(r io.Reader, source Source, each func(ProxyEntry)) (Lines, error) {
	source.Prefix = cmp.Or(source.Prefix, IDPrefix)
	p := &parser{source: source, shared: map[string]string{}}
	err := p.read(r, func(line []byte) { p.line(line, each) })
	return p.lines, err
}

// read calls each for every line that is neither empty nor too long.
func (p *parser) read(r io.Reader, each func(line []byte)) error {
	for line, err := range lines.Of(r, maxLine) {
		if err != nil {
			return fmt.Errorf("access log of %s: %w", p.source.Pod, err)
		}
		switch text := bytes.TrimSpace(line.Text); {
		case line.Long:
			p.skip(bytes.HasPrefix(text, []byte{'{'}) && bytes.Contains(text, []byte(`"`+p.source.Prefix)))
		case len(text) > 0:
			each(text)
		}
	}
	return nil
}

type parser struct {
	source Source
	shared map[string]string
	lines  Lines
}

func (p *parser) skip(ours bool) {
	if ours {
		p.lines.Damaged++
	} else {
		p.lines.Foreign++
	}
}

// share returns the text, with one copy for all lines.
func (p *parser) share(text []byte) string {
	if known, ok := p.shared[string(text)]; ok {
		return known
	}
	s := string(text)
	if len(p.shared) < maxShared {
		p.shared[s] = s
	}
	return s
}

// takes reports whether a scanned line is an entry about one of our requests, and counts it
// otherwise. object: it is JSON; start: it is an access log line with a time; bad: a field could
// not be parsed.
func (p *parser) takes(line, id []byte, object, start, bad bool) bool {
	switch {
	case !object:
		p.skip(bytes.Contains(line, []byte(`"`+p.source.Prefix)))
	case !start && !bad:
		p.lines.Foreign++ // unrelated JSON
	case !strings.HasPrefix(string(id), p.source.Prefix):
		p.lines.Other++
	case bad:
		p.lines.Damaged++
	default:
		return true
	}
	return false
}

// envoyLine is the parsed part of an access log line.
type envoyLine struct {
	*parser
	entry                     ProxyEntry
	id                        []byte
	cluster, authority, local string
	us, ms                    int64     // -1 if absent
	start, some               bool      // it has a time; it has any other field
	bad                       uint32    // bit per ownName number whose value could not be parsed
	ranks                     [32]uint8 // by ownName number: the rank of the name that was read; 0 if none
}

func (p *parser) line(line []byte, each func(ProxyEntry)) {
	if line[0] != '{' {
		p.lines.Foreign++
		return
	}
	l := envoyLine{parser: p, entry: ProxyEntry{Service: p.source.Service, Pod: p.source.Pod, GRPC: -1, Attempts: -1}, us: -1, ms: -1}
	object := accesslog.Scan(line, l.field)
	if !p.takes(line, l.id, object, l.start && l.some, l.bad != 0) {
		return
	}
	p.lines.Entries++
	each(l.whole())
}

// field processes a field of the line.
func (l *envoyLine) field(key, value []byte) {
	if accesslog.Missing(value) {
		return
	}
	own, ok := l.named(key)
	if !ok {
		return
	}
	e := &l.entry
	readable := true
	number := func(most int64) int64 {
		n, ok := accesslog.Number(string(value))
		readable = ok && n <= most
		return n
	}
	switch own.name {
	case attemptField:
		e.One = string(value) == attemptKind
	case "id":
		l.id = append(l.id[:0], value...)
	case "start":
		e.StartNS, l.start = accesslog.Time(string(value))
		readable = l.start
	case "us":
		l.us = number(math.MaxInt64 / 1000)
	case "ms":
		l.ms = number(math.MaxInt64 / 1_000_000)
	case "status":
		e.Status = int(number(999))
	case "grpc":
		e.GRPC = int(number(math.MaxInt32))
	case "attempts":
		e.Attempts = int(number(math.MaxUint16))
	case "attempt":
		e.Attempt = int(number(math.MaxUint16))
	case "flags":
		e.Flags = l.share(value)
	case "details":
		e.Details = l.share(value)
	case "closed":
		e.Closed = l.share(value)
	case "transport":
		e.Transport = l.share(value)
	case "host":
		e.Host = accesslog.Address(l.share(value))
	case "cluster":
		l.cluster = l.share(value)
	case "authority":
		l.authority = l.share(value)
	case "local":
		l.local = l.share(value)
	}
	l.bad &^= 1 << own.number
	if !readable {
		l.bad |= 1 << own.number
	}
}

// named returns our name for a field. ok is false if it has none, or if the line already had the
// value under a higher-ranking name.
func (l *envoyLine) named(key []byte) (own ownName, ok bool) {
	own, ok = ownNames[string(key)] // without copying
	if !ok {
		field, rank := accesslog.Find(key)
		if own, ok = ownNames[ofOthers[field]]; !ok {
			return own, false
		}
		own.rank = rankOf(rank)
	}
	if known := l.ranks[own.number]; known != 0 && known < own.rank {
		return own, false
	}
	l.ranks[own.number] = own.rank
	l.some = l.some || own.name != "start"
	return own, true
}

// whole returns the entry from all fields.
func (l *envoyLine) whole() ProxyEntry {
	e := l.entry
	e.ID = string(l.id)
	e.StartNS -= l.source.ZeroNS
	switch {
	case l.us >= 0:
		e.DurationNS = l.us * 1000
	case l.ms >= 0:
		e.DurationNS = l.ms * 1e6
	}
	if e.Attempts < 0 || e.One { // absent in Istio's own format, and always 0 in an attempt log
		e.Attempts = 0
		if e.Host != "" {
			e.Attempts = 1
		}
	}
	e.Side, e.To = l.direction(l.cluster, l.authority, l.local)
	return e
}

// direction distinguishes inbound from outbound by Istio's cluster names:
// "outbound|8080|subset|bar.ns.svc.cluster.local", "inbound|8080||",
// "inbound-vip|8080|http|bar.ns.svc.cluster.local" at a waypoint, which calls on behalf of others,
// PassthroughCluster, BlackHoleCluster, InboundPassthroughCluster. The service is the first label
// of the host name.
func (p *parser) direction(cluster, authority, local string) (Side, string) {
	switch {
	case strings.HasPrefix(cluster, "inbound|"), strings.HasPrefix(cluster, "InboundPassthrough"):
		return SideServer, ""
	case strings.HasPrefix(cluster, "outbound|"), strings.HasPrefix(cluster, "inbound-vip|"):
		return SideClient, p.firstLabel(cluster[strings.LastIndexByte(cluster, '|')+1:])
	case cluster != "":
		return SideClient, p.firstLabel(authority)
	}
	for _, address := range p.source.Addresses {
		if local == address || strings.HasPrefix(local, address+":") || strings.HasPrefix(local, "["+address+"]:") {
			return SideServer, ""
		}
	}
	if len(p.source.Addresses) == 0 {
		return SideUnknown, p.firstLabel(authority)
	}
	return SideClient, p.firstLabel(authority)
}

func (p *parser) firstLabel(host string) string {
	if i := strings.IndexAny(host, ".:"); i >= 0 {
		host = host[:i]
	}
	return p.share([]byte(host))
}

package dataplane

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study"
)

// FactorFilters enables parts of the server's sidecar.
const FactorFilters = "filters"

// FiltersNone is the level of [FactorFilters] that adds nothing to the other factors.
const FiltersNone = study.LevelNone

// Kinds of parts of a sidecar.
const (
	PartPlanted     = "planted"
	PartPlantedNoop = "planted-noop"
	PartLua         = "lua"
	PartLuaNoop     = "lua-noop"
	PartWasm        = "wasm"
	PartWasmNoop    = "wasm-noop"
	PartWasmFile    = "wasm-file"
	PartAuthzAllow  = "authz-allow"
	PartAuthzDeny   = "authz-deny"
	PartJWT         = "jwt"
	PartJWTToken    = "jwt-token"
	PartRateLimit   = "ratelimit"
	PartAuthzGRPC   = study.CalloutAuthzGRPC
	PartAuthzHTTP   = study.CalloutAuthzHTTP
	PartGlobalLimit = study.CalloutRateLimit
	PartFault       = "fault"
	PartInspector   = "inspector"
	PartTracing     = "tracing"
	PartOTLPLog     = "otlp-log"
	PartECDSA       = "ecdsa"
	PartDNSProxy    = "dns-proxy"
	PartListeners   = "listeners"
	PartClusters    = "clusters"
	PartRoutes      = "routes"
	PartEnvoyFilter = "envoyfilter"
	partSeparator   = "+"
	maxParts        = 32
)

// PartKind is a kind of part in levels of [FactorFilters].
type PartKind struct {
	Name string
	Doc  string
	// Number is the unit of the number after the name, which is from Low to High; "" if there is
	// none.
	Number    string
	Low, High int
	// File is the section of the study in which the name that follows is a file; "" if there is
	// none.
	File string
	// Asks means that the sidecar asks the sink about each request.
	Asks bool
}

// partKinds lists all kinds, in the order of a level.
var partKinds = []PartKind{
	{Name: PartPlanted, Number: "CPU microseconds per request", Low: 1, High: 1_000_000,
		Doc: "A filter with a known cost: a Lua script that computes until its thread's CPU clock has advanced by N microseconds (overshooting by at most 64 iterations and one clock read). The cost of calling a script, as in lua-noop, comes on top."},
	{Name: PartPlantedNoop, Doc: "A filter without measurable cost: Envoy's header mutation filter with no mutations, called for each request."},
	{Name: PartLua, Doc: "A Lua script that reads the request's :authority and sets a header to it."},
	{Name: PartLuaNoop, Doc: "A Lua script that does nothing: the cost of calling one."},
	{Name: PartWasm, Doc: "A Wasm filter on V8 that does the same as lua, built from mesh/istio/wasm."},
	{Name: PartWasmNoop, Doc: "A Wasm filter on V8 that does nothing for a request."},
	{Name: PartWasmFile, File: "wasm", Doc: "Your own Wasm module, from the file of that name in the study's wasm, on V8 and without configuration."},
	{Name: PartAuthzAllow, Number: "rules", Low: 1, High: 2000, Doc: "An AuthorizationPolicy that allows: N rules on paths, of which the last matches every request."},
	{Name: PartAuthzDeny, Number: "rules", Low: 1, High: 2000, Doc: "An AuthorizationPolicy that denies: N rules on paths, none of which matches."},
	{Name: PartJWT, Doc: "A RequestAuthentication with the run's own key; requests without a token pass."},
	{Name: PartJWTToken, Doc: "The same, with a token (RS256, 2,048 bits) in every request, which is verified. In a study with this part, requests of all cells carry the token."},
	{Name: PartRateLimit, Doc: "Envoy's local rate limit, with a bucket that is never empty."},
	{Name: PartAuthzGRPC, Asks: true, Doc: "External authorization: Envoy asks a service about each request, by gRPC (envoy.service.auth.v3). The service is a worker without a sidecar that allows everything at once; without its answer in a second, the request is rejected."},
	{Name: PartAuthzHTTP, Asks: true, Doc: "The same by HTTP/1.1, with the request's method and path."},
	{Name: PartGlobalLimit, Asks: true, Doc: "A global rate limit: Envoy asks the same service about each request, by gRPC (envoy.service.ratelimit.v3), with one descriptor."},
	{Name: PartFault, Doc: "Envoy's fault filter, aborting 0% of the requests. Istio's own empty one stays."},
	{Name: PartInspector, Doc: "The HTTP inspector examines the first bytes of each unencrypted connection, as for ports without a protocol. With mutual TLS it has nothing to do."},
	{Name: PartTracing, Doc: "A span per request, sent to a sink in the same namespace by OTLP over HTTP."},
	{Name: PartOTLPLog, Doc: "An access log entry per request, sent to a sink in the same namespace by OTLP over gRPC, in addition to telemetry."},
	{Name: PartECDSA, Doc: "A workload key of ECDSA P-256 instead of RSA 2,048. Used only in handshakes: see keep_alive. Sidecars use TLS 1.3 with each other, for which Envoy's ciphers cannot be chosen."},
	{Name: PartDNSProxy, Doc: "The sidecar's agent answers the pod's DNS queries (ISTIO_META_DNS_CAPTURE). Requests to the worker make none, so this shows idle cost."},
	{Name: PartListeners, Number: "listeners", Low: 1, High: 2000, Doc: "N more listeners in the sidecar's configuration, without connections: about 200 bytes each, added to this sidecar alone by an EnvoyFilter."},
	{Name: PartClusters, Number: "clusters", Low: 1, High: 5000, Doc: "N more clusters with an endpoint each, without requests, added as listeners are."},
	{Name: PartRoutes, Number: "routes", Low: 1, High: 5000, Doc: "N more routes before the one that requests match; Envoy tries them in order."},
	{Name: PartEnvoyFilter, File: "envoy_filters", Doc: "Your own EnvoyFilter, from the file of that name in the study's envoy_filters, applied to the server's sidecar alone."},
}

// spelled returns a kind as it is written in levels, followed by a file or a number if it takes one.
func (k PartKind) spelled(file, number string) string {
	switch {
	case k.File != "":
		return k.Name + file
	case k.Number != "":
		return k.Name + number
	}
	return k.Name
}

func (k PartKind) example() string { return "-" + strconv.Itoa(min(100, k.High)) }

// PartKinds returns the kinds of parts in the order of a level. The caller must not modify it.
func PartKinds() []PartKind { return partKinds }

// Part is an enabled part of the server's sidecar.
type Part struct {
	Kind string // PartLua and so on
	N    int    // for kinds with a number
	File string // for kinds with a file: its name in the study
}

// String formats the part as in levels.
func (p Part) String() string {
	switch {
	case p.File != "":
		return p.Kind + "-" + p.File
	case p.N > 0:
		return p.Kind + "-" + strconv.Itoa(p.N)
	}
	return p.Kind
}

// Parts parses a level of [FactorFilters]; "", [FiltersNone] and [NotApplicable] have no parts. It
// fails only for a level that did not come from a study.
func Parts(level string) ([]Part, error) {
	if level == "" || level == study.NotApplicable {
		return nil, nil
	}
	parts, c := parseParts(level)
	if c != nil {
		return nil, c
	}
	return parts, nil
}

// somePart reports whether a level of [FactorFilters] has a part of such a kind.
func somePart(level string, is func(PartKind) bool) bool {
	parts, _ := Parts(level) // errors are reported with the level's position
	return slices.ContainsFunc(parts, func(p Part) bool { return is(partKinds[kindIndex(p.Kind)]) })
}

// HasPart reports whether a level of [FactorFilters] has a part of a kind.
func HasPart(level, kind string) bool {
	return somePart(level, func(k PartKind) bool { return k.Name == kind })
}

// HasParts reports whether some cell of a study enables parts.
func HasParts(s *study.Study) bool {
	return slices.ContainsFunc(s.Levels(FactorFilters), func(level string) bool { return somePart(level, func(PartKind) bool { return true }) })
}

// Asks reports whether a level of [FactorFilters] has a part that asks the sink about each request.
func Asks(level string) bool { return somePart(level, func(k PartKind) bool { return k.Asks }) }

// NeedsSink reports whether a level of [FactorFilters] has a part that sends the sink something.
func NeedsSink(level string) bool {
	return Asks(level) || HasPart(level, PartTracing) || HasPart(level, PartOTLPLog)
}

func filtersLevel(s string) (string, *study.Error) {
	parts, c := parseParts(s)
	if c != nil {
		return "", c
	}
	return joinParts(parts), nil
}

func joinParts(parts []Part) string {
	if len(parts) == 0 {
		return FiltersNone
	}
	words := make([]string, len(parts))
	for i, p := range parts {
		words[i] = p.String()
	}
	return strings.Join(words, partSeparator)
}

// parseParts parses parts in any order and returns them in the order of the kinds, with files
// sorted by name.
func parseParts(s string) ([]Part, *study.Error) {
	if s == FiltersNone {
		return nil, nil
	}
	if strings.TrimSpace(s) == "" {
		return nil, study.Complain(study.CodeMissing, "use none, or parts joined by +, such as lua+authz-allow-100", "no part is named")
	}
	words := strings.Split(s, partSeparator)
	if len(words) > maxParts {
		return nil, study.Complain(study.CodeLimit, "", "%d parts are too many; the limit is %d", len(words), maxParts)
	}
	var out []Part
	for i, word := range words {
		p, c := parsePart(strings.TrimSpace(word))
		if c != nil {
			if len(words) > 1 {
				c.Msg = fmt.Sprintf("part %d: %s", i+1, c.Msg)
			}
			return nil, c
		}
		for _, earlier := range out {
			if earlier.Kind != p.Kind || earlier.File != p.File {
				continue
			}
			if earlier == p {
				return nil, study.Complain(study.CodeDuplicate, "name it once", "part %d: %s is listed twice", i+1, p)
			}
			return nil, study.Complain(study.CodeInvalid, "name one of them", "part %d: %s and %s contradict each other", i+1, earlier, p)
		}
		out = append(out, p)
	}
	has := func(kind string) bool { return slices.Contains(out, Part{Kind: kind}) }
	if has(PartJWT) && has(PartJWTToken) {
		return nil, study.Complain(study.CodeInvalid, "name one of them", "%s and %s contradict each other", PartJWT, PartJWTToken)
	}
	slices.SortFunc(out, func(a, b Part) int {
		return cmp.Or(kindIndex(a.Kind)-kindIndex(b.Kind), strings.Compare(a.File, b.File))
	})
	return out, nil
}

func kindIndex(name string) int {
	return slices.IndexFunc(partKinds, func(k PartKind) bool { return k.Name == name })
}

func parsePart(word string) (Part, *study.Error) {
	if word == "" {
		return Part{}, study.Complain(study.CodeMissing, "parts are joined by one +", "a part is empty")
	}
	if word == FiltersNone {
		return Part{}, study.Complain(study.CodeInvalid, "use none on its own", "none cannot be combined with other parts")
	}
	stem, rest := word, ""
	k := kindIndex(word)
	for at := len(word); k < 0; {
		if at = strings.LastIndexByte(word[:at], '-'); at < 0 {
			return Part{}, study.Complain(study.CodeUnknown, errs.Suggest(word, partNames()), "unknown part %q", study.Clip(word, 40))
		}
		stem, rest = word[:at], word[at+1:]
		k = kindIndex(stem)
	}
	kind := partKinds[k]
	switch {
	case kind.File != "":
		if !study.NamePattern.MatchString(rest) {
			return Part{}, study.Complain(study.CodeInvalid, fmt.Sprintf("write %s-mine, with %s: {mine: FILE}", kind.Name, kind.File), "%q names no file of %s", study.Clip(word, 40), kind.File)
		}
		return Part{Kind: kind.Name, File: rest}, nil
	case kind.Number == "" && rest == "" && stem == word:
		return Part{Kind: kind.Name}, nil
	case kind.Number == "":
		return Part{}, study.Complain(study.CodeUnknown, "leave the number out, or "+errs.Suggest(word, partNames()), "unknown part %q", study.Clip(word, 40))
	case rest == "":
		return Part{}, study.Complain(study.CodeMissing, "as "+kind.Name+kind.example(), "%s lacks its number of %s", kind.Name, kind.Number)
	}
	n, err := strconv.Atoi(rest)
	if err != nil || strconv.Itoa(n) != rest {
		return Part{}, study.Complain(study.CodeInvalid, "as "+kind.Name+kind.example(), "%q is not a number of %s", study.Clip(rest, 40), kind.Number)
	}
	if n < kind.Low || n > kind.High {
		return Part{}, study.Complain(study.CodeRange, fmt.Sprintf("use a number from %d to %d", kind.Low, kind.High), "%s is out of range", word)
	}
	return Part{Kind: kind.Name, N: n}, nil
}

// partNames returns the parts as written in levels, with an example of a number.
func partNames() []string {
	out := []string{FiltersNone}
	for _, k := range partKinds {
		out = append(out, k.spelled("-NAME", k.example()))
	}
	return out
}

// filtersPattern returns a regular expression for levels.
func filtersPattern() string {
	var words []string
	for _, k := range partKinds {
		words = append(words, k.spelled(`-[a-z0-9]([a-z0-9-]*[a-z0-9])?`, `-[1-9][0-9]*`))
	}
	one := "(" + strings.Join(words, "|") + ")"
	return `^(none|` + one + `(\+` + one + `)*)$`
}

const filtersDoc = "Parts of the server's sidecar enabled in addition to other factors: none, or some joined by +, such as lua+authz-allow-100. docs/study.md lists them. Those that ask a service also apply to a waypoint."

func partsReference() string {
	var b strings.Builder
	b.WriteString("\n### Parts of the factor filters\n\n")
	for _, k := range partKinds {
		number := ""
		if k.Number != "" {
			number = fmt.Sprintf(" (%d to %d %s)", k.Low, k.High, k.Number)
		}
		fmt.Fprintf(&b, "- `%s`%s: %s\n", k.spelled("-NAME", "-N"), number, study.Brief(k.Doc))
	}
	return b.String()
}

// PartNumber reads a level of [FactorFilters] as a number of things of a kind, 0 without the part.
// It also returns the level without them, "" for none. It returns false if there is no proxy.
func PartNumber(level, kind string) (n int, rest string, ok bool) {
	parts, err := Parts(level)
	if level == "" || level == study.NotApplicable || err != nil {
		return 0, "", false
	}
	if i := slices.IndexFunc(parts, func(p Part) bool { return p.Kind == kind }); i >= 0 {
		n = parts[i].N
		parts = slices.Delete(parts, i, i+1)
	}
	if len(parts) > 0 {
		rest = joinParts(parts)
	}
	return n, rest, true
}

package scope

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"
)

// TypeNames is the name table of Istio's DNS proxy, which is not part of config dumps.
const TypeNames = "nds"

// Types of resources for ztunnels: workloads and Services, and authorization policies.
const (
	TypeWorkload      = "wds"
	TypeAuthorization = "wads"
)

// wireTypes describes the discovery resources by the last part of their type URL.
var wireTypes = map[string]struct {
	typ  string
	make func() proto.Message
}{
	"envoy.config.cluster.v3.Cluster":                  {TypeCluster, func() proto.Message { return new(clusterv3.Cluster) }},
	"envoy.config.endpoint.v3.ClusterLoadAssignment":   {TypeEndpoint, func() proto.Message { return new(endpointv3.ClusterLoadAssignment) }},
	"envoy.config.listener.v3.Listener":                {TypeListener, func() proto.Message { return new(listenerv3.Listener) }},
	"envoy.config.route.v3.RouteConfiguration":         {TypeRoute, func() proto.Message { return new(routev3.RouteConfiguration) }},
	"envoy.extensions.transport_sockets.tls.v3.Secret": {TypeSecret, func() proto.Message { return new(tlsv3.Secret) }},
	"envoy.config.core.v3.TypedExtensionConfig":        {TypeExtension, func() proto.Message { return new(corev3.TypedExtensionConfig) }},
	"istio.networking.nds.v1.NameTable":                {TypeNames, nil},
	"istio.workload.Address":                           {TypeWorkload, nil},
	"istio.workload.Workload":                          {TypeWorkload, nil},
	"istio.security.Authorization":                     {TypeAuthorization, nil},
}

// Add counts a resource as istiod sends it: its type URL (or the last part of it), its name in the
// discovery response, which may be "", and its body. It returns an error, and counts nothing, if
// the body is not a message of that type. A resource of unknown type, or with excessively nested
// messages, is counted as unattributed.
func (s *Scanner) Add(typeURL, name string, body []byte) error {
	short := typeURL[strings.LastIndexByte(typeURL, '/')+1:]
	w, known := wireTypes[short]
	size := sizes{wire: int64(len(body))}
	if !known || w.make == nil || nested(body, maxNested) {
		return s.addOpaque(w.typ, short, name, size, body)
	}
	m := w.make()
	if err := proto.Unmarshal(body, m); err != nil {
		return fmt.Errorf("resource %q of type %s, %d bytes: %w", name, short, len(body), err)
	}
	j := s.names.judge(w.typ, ofMessage(m.ProtoReflect(), size.wire), false)
	wireParts := j.parts
	j.parts = nil
	if text, ok := s.asJSON(w.typ, m); ok {
		size.dump = int64(len(text))
		same := s.names.judge(w.typ, jsonNode(text), false)
		j.parts, j.dns = same.parts, same.dns // protobuf does not encode names of enumeration values
	}
	j.name = cmp.Or(j.name, name)
	s.count(w.typ, false, j, size, wireParts)
	return nil
}

// maxNested is the maximum nesting depth of messages, including packed ones, which are parsed again
// at each level. Envoy's configuration stays far below it.
const maxNested = 100

// nested reports whether messages are nested deeper than levels. A text may look like a message,
// but never like one that deep.
func nested(b []byte, levels int) bool {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		size := protowire.ConsumeFieldValue(number, kind, b[n:])
		if size < 0 {
			return false
		}
		if kind == protowire.BytesType {
			if inner, _ := protowire.ConsumeBytes(b[n:]); len(inner) > 0 && (levels == 0 || nested(inner, levels-1)) {
				return true
			}
		}
		b = b[n+size:]
	}
	return false
}

// addOpaque counts resources that Envoy does not know or that are nested too deeply. It divides a
// name table by host: message NameTable { map<string, NameInfo> table = 1; }.
func (s *Scanner) addOpaque(typ, short, name string, size sizes, body []byte) error {
	j := judged{name: name, rest: unexplained("type " + short)}
	typ = cmp.Or(typ, TypeOther)
	var parts []part
	if typ == TypeNames {
		j.rest = by(defaults)
		for rest := body; len(rest) > 0; {
			number, kind, n := protowire.ConsumeTag(rest)
			if n < 0 {
				return fmt.Errorf("name table, %d bytes: %w", len(body), protowire.ParseError(n))
			}
			whole := protowire.ConsumeFieldValue(number, kind, rest[n:])
			if whole < 0 {
				return fmt.Errorf("name table, %d bytes: %w", len(body), protowire.ParseError(whole))
			}
			if number == 1 && kind == protowire.BytesType {
				entry, _ := protowire.ConsumeBytes(rest[n:])
				if host := entryKey(entry); host != "" {
					parts = append(parts, part{claim{kind: claimHost, name: host}, int64(n + whole)})
				}
			}
			rest = rest[n+whole:]
		}
	}
	s.count(typ, false, j, size, parts)
	return nil
}

// entryKey returns the key of a map entry, its field 1.
func entryKey(entry []byte) string {
	number, kind, n := protowire.ConsumeTag(entry)
	if n < 0 || number != 1 || kind != protowire.BytesType {
		return ""
	}
	key, n := protowire.ConsumeBytes(entry[n:])
	if n < 0 {
		return ""
	}
	return string(key)
}

// dumpIndent is the number of levels by which Envoy indents a resource in a config dump, one space
// each.
var dumpIndent = map[string]int{TypeListener: 6}

// asJSON formats a resource as Envoy prints it in a config dump. The result is shorter if a packed
// type is not linked into this program.
func (s *Scanner) asJSON(typ string, m proto.Message) ([]byte, bool) {
	known := &lenient{}
	text, err := protojson.MarshalOptions{UseProtoNames: true, Resolver: known, AllowPartial: true}.Marshal(m)
	if err != nil {
		s.partial++
		return nil, false
	}
	if known.missed {
		s.partial++
	}
	depth, ok := dumpIndent[typ]
	if !ok {
		depth = 5
	}
	// protojson deliberately adds random whitespace; Indent normalizes it.
	var plain, pretty bytes.Buffer
	if json.Compact(&plain, text) != nil || json.Indent(&pretty, plain.Bytes(), strings.Repeat(" ", depth), " ") != nil {
		s.partial++
		return nil, false
	}
	return pretty.Bytes(), true
}

// lenient resolves packed types; it treats unknown types as empty.
type lenient struct{ missed bool }

func (l *lenient) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	return protoregistry.GlobalTypes.FindMessageByName(name)
}

func (l *lenient) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	t, err := protoregistry.GlobalTypes.FindMessageByURL(url)
	if err != nil {
		l.missed = true
		return (&emptypb.Empty{}).ProtoReflect().Type(), nil
	}
	return t, nil
}

func (l *lenient) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	return protoregistry.GlobalTypes.FindExtensionByName(name)
}

func (l *lenient) FindExtensionByNumber(message protoreflect.FullName, number protoreflect.FieldNumber) (protoreflect.ExtensionType, error) {
	return protoregistry.GlobalTypes.FindExtensionByNumber(message, number)
}

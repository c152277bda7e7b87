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

// TypeNames is the name table of Istio's DNS proxy, which no config dump has.
const TypeNames = "nds"

// Types of what ztunnels are sent: workloads and Services, and authorization policies.
const (
	TypeWorkload      = "wds"
	TypeAuthorization = "wads"
)

// wireTypes are the resources of discovery by the last part of their type URL.
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

// Add counts a resource as istiod sends it: its type URL (or the last part of
// it), its name in the discovery response, which may be "", and its body. The
// error says that the body is no message of that type; nothing is counted
// then. A resource of a type that is not known, or with messages in each other beyond all
// reason, is counted unattributed.
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
		j.parts, j.dns = same.parts, same.dns // protobuf has no names of enumerations
	}
	j.name = cmp.Or(j.name, name)
	s.count(w.typ, false, j, size, wireParts)
	return nil
}

// maxNested bounds how deep messages may lie in each other, and in packed ones, which are
// parsed again at each level: those of Envoy's configuration stay far below it.
const maxNested = 100

// nested says that messages lie in each other deeper than so many levels. What is text may
// look like a message, which is never that deep.
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

// addOpaque counts resources that Envoy does not know, or that are nested too deep to be its. A name table is
// cut by host: message NameTable { map<string, NameInfo> table = 1; }.
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

// entryKey is the key of a map entry, its field 1.
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

// dumpIndent is how far Envoy indents a resource in a config dump, which it
// prints with one blank for each level.
var dumpIndent = map[string]int{TypeListener: 6}

// asJSON is a resource as Envoy prints it in a config dump. It is shorter than
// that where a packed type is not linked into this program.
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
	// protojson puts blanks at random on purpose; Indent makes it regular.
	var plain, pretty bytes.Buffer
	if json.Compact(&plain, text) != nil || json.Indent(&pretty, plain.Bytes(), strings.Repeat(" ", depth), " ") != nil {
		s.partial++
		return nil, false
	}
	return pretty.Bytes(), true
}

// lenient resolves packed types; one that is not known is taken for empty.
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

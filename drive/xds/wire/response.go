package wire

// Fields that DiscoveryResponse and DeltaDiscoveryResponse share.
const (
	responseVersion   = 1
	responseResources = 2
	responseTypeURL   = 4
	responseNonce     = 5
	// only in DeltaDiscoveryResponse
	responseRemoved = 6
)

// Fields of Resource and Any.
const (
	resourceVersion = 1
	resourceAny     = 2
	resourceName    = 3
	anyTypeURL      = 1
	anyValue        = 2
)

// Head holds the header fields of a response.
type Head struct {
	TypeURL []byte
	Nonce   []byte
	Version []byte
}

// Outline summarizes the outermost fields of a response.
type Outline struct {
	Head
	Resources, Removed int
	// Size is the number of bytes in resources and removals. Sum is a hash of
	// them that does not depend on their order, which differs between proxies
	// because istiod iterates over maps.
	Size int
	Sum  uint64
	// Sums are the hashes of the resources, in order.
	Sums []uint64
}

// Skim walks only the outermost fields of a response, a DeltaDiscoveryResponse
// or a DiscoveryResponse, and hashes the bytes of each resource and removal.
// The hashes of resources are appended to sums.
func Skim(message []byte, delta bool, hash func([]byte) uint64, sums []uint64) (Outline, error) {
	o := Outline{Sums: sums}
	var err error
	o.Head, err = Walk(message, delta, func(raw []byte) error {
		sum := hash(raw)
		o.Resources++
		o.Size += len(raw)
		o.Sum += scramble(sum)
		o.Sums = append(o.Sums, sum)
		return nil
	}, func(name []byte) error {
		o.Removed++
		o.Size += len(name)
		o.Sum += scramble(hash(name) + goldenRatio) // distinct from a resource with the same bytes
		return nil
	})
	return o, err
}

const goldenRatio = 0x9e3779b97f4a7c15 // of 2^64, odd

// Walk calls resource with the bytes of each resource of a response, for
// [ParseResource], and removed with each name that it removes, until one of them
// returns an error. The head has the fields read up to then.
func Walk(message []byte, delta bool, resource, removed func([]byte) error) (Head, error) {
	var h Head
	resources, removals := 0, 0
	c := cursor{b: message, what: "response"}
	for {
		f, ok, err := c.next()
		if err != nil || !ok {
			return h, err
		}
		switch f.num {
		case responseVersion, responseResources, responseTypeURL, responseNonce:
			err = f.wantBytes("response")
		case responseRemoved:
			if !delta {
				continue
			}
			err = f.wantBytes("response")
		default:
			continue
		}
		switch {
		case err != nil:
		case f.num == responseVersion:
			h.Version = f.bytes
		case f.num == responseTypeURL:
			h.TypeURL = f.bytes
		case f.num == responseNonce:
			h.Nonce = f.bytes
		case f.num == responseResources:
			if resources++; resources > MaxResources {
				return h, tooMany("resources", MaxResources)
			}
			err = resource(f.bytes)
		default:
			if removals++; removals > MaxResources {
				return h, tooMany("removals", MaxResources)
			}
			err = removed(f.bytes)
		}
		if err != nil {
			return h, err
		}
	}
}

// Resource is one resource of a response.
type Resource struct {
	// Name is the name of the resource. In state-of-the-world mode it is taken
	// from the body.
	Name    []byte
	Version []byte // delta only
	Body    []byte
}

// ParseResource reads the bytes of one resource, as [Walk] passes them, of a
// response of a type.
func ParseResource(raw []byte, typeURL string, delta bool) (Resource, error) {
	if delta {
		return parseResource(raw)
	}
	return parseAnyResource(raw, typeURL)
}

func parseResource(b []byte) (Resource, error) {
	var r Resource
	err := each("resource", b, func(f field) error {
		switch f.num {
		case resourceVersion, resourceAny, resourceName:
			if err := f.wantBytes("resource"); err != nil {
				return err
			}
		}
		var err error
		switch f.num {
		case resourceVersion:
			r.Version = f.bytes
		case resourceName:
			r.Name = f.bytes
		case resourceAny:
			_, r.Body, err = parseAny(f.bytes)
		}
		return err
	})
	return r, err
}

func parseAnyResource(b []byte, typeURL string) (Resource, error) {
	var r Resource
	var err error
	if _, r.Body, err = parseAny(b); err != nil {
		return r, err
	}
	r.Name, err = Name(typeURL, r.Body)
	return r, err
}

// parseAny reads a google.protobuf.Any.
func parseAny(b []byte) (typeURL, value []byte, err error) {
	err = each("any", b, func(f field) error {
		switch f.num {
		case anyTypeURL:
			typeURL = f.bytes
		case anyValue:
			value = f.bytes
		default:
			return nil
		}
		return f.wantBytes("any")
	})
	return typeURL, value, err
}

// Name returns the name in a resource's body: field 1 of clusters, listeners,
// routes, load assignments, secrets and extensions. Name tables have none.
func Name(typeURL string, body []byte) ([]byte, error) {
	if typeURL == NameTableType {
		return nil, nil
	}
	var name []byte
	c := cursor{b: body, what: "resource body"}
	for {
		f, ok, err := c.next()
		if err != nil || !ok {
			return name, err
		}
		if f.num != 1 {
			continue
		}
		if err := f.wantBytes("resource body"); err != nil {
			return nil, err
		}
		name = f.bytes
	}
}

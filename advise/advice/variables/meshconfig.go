package variables

import (
	"bytes"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// meshFiles define MeshConfig, and within it what proxies are told. Every Go program
// with these types carries their descriptors as they are.
var meshFiles = []string{"mesh/v1alpha1/config.proto", "mesh/v1alpha1/proxy.proto"}

const (
	// maxDescriptor bounds a descriptor, in bytes; those of 1.31 have some 20,000.
	maxDescriptor = 1 << 20
	// maxPlaces bounds how often a program may name a descriptor's file; 1.31 does so
	// some five times.
	maxPlaces     = 32
	meshMessage   = "MeshConfig"
	meshPackage   = ".istio.mesh.v1alpha1."
	maxFieldDepth = 3
)

// meshFields finds the fields of MeshConfig in a program. None is no error: a program
// may be packed, or keep its descriptors another way.
func meshFields(program io.ReadSeeker) ([]Field, error) {
	messages := map[string]*descriptorpb.DescriptorProto{}
	for _, name := range meshFiles {
		if _, err := program.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		// Field 1 of FileDescriptorProto is its name.
		begin := append([]byte{1<<3 | byte(protowire.BytesType), byte(len(name))}, name...)
		places, err := after(program, begin, maxDescriptor)
		if err != nil {
			return nil, err
		}
		for _, at := range places {
			for _, m := range descriptorAt(at).GetMessageType() {
				collect(messages, m.GetName(), m)
			}
		}
	}
	fields := []Field{}
	walk(messages, meshMessage, "", maxFieldDepth, &fields)
	return fields, nil
}

// collect names a message and those within it.
func collect(into map[string]*descriptorpb.DescriptorProto, name string, m *descriptorpb.DescriptorProto) {
	into[name] = m
	for _, inner := range m.GetNestedType() {
		collect(into, name+"."+inner.GetName(), inner)
	}
}

// walk lists the fields of a message, and of messages in it that are known.
func walk(all map[string]*descriptorpb.DescriptorProto, message, prefix string, depth int, out *[]Field) {
	m := all[message]
	if m == nil || depth == 0 {
		return
	}
	for _, f := range m.GetField() {
		path := prefix + f.GetJsonName()
		kind := strings.ToLower(strings.TrimPrefix(f.GetType().String(), "TYPE_"))
		of := f.GetTypeName()
		if of != "" {
			kind = of[strings.LastIndexByte(of, '.')+1:]
		}
		if f.GetLabel() == descriptorpb.FieldDescriptorProto_LABEL_REPEATED {
			kind = "list of " + kind
		}
		*out = append(*out, Field{Path: path, Type: kind})
		if inner, ok := strings.CutPrefix(of, meshPackage); ok && !all[inner].GetOptions().GetMapEntry() {
			walk(all, inner, path+".", depth-1, out)
		}
	}
}

// descriptorAt reads the descriptor that a text begins with. How long it is stands
// nowhere: fields are read as long as they are such of a FileDescriptorProto, up to
// its syntax, which protoc writes last.
func descriptorAt(raw []byte) *descriptorpb.FileDescriptorProto {
	end := 0
	for end < len(raw) {
		number, kind, n := protowire.ConsumeTag(raw[end:])
		if n < 0 || number < 1 || number > 14 {
			break
		}
		size := protowire.ConsumeFieldValue(number, kind, raw[end+n:])
		if size < 0 {
			break
		}
		end += n + size
		if number == syntaxField {
			break
		}
	}
	var file descriptorpb.FileDescriptorProto
	if proto.Unmarshal(raw[:end], &file) != nil || len(file.GetMessageType()) == 0 {
		return nil
	}
	return &file
}

const syntaxField = 12 // of FileDescriptorProto

// after returns what follows each place of a text in a stream, with the text, at most
// limit bytes of each.
func after(from io.Reader, text []byte, limit int) ([][]byte, error) {
	var found [][]byte
	const chunk = 1 << 20
	var held []byte
	for {
		buffer := make([]byte, chunk)
		n, err := io.ReadFull(from, buffer)
		held = append(held, buffer[:n]...)
		ended := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !ended {
			return nil, err
		}
		for {
			i := bytes.Index(held, text)
			if i < 0 {
				held = held[max(0, len(held)-len(text)):]
				break
			}
			if len(held)-i < limit && !ended {
				held = held[i:]
				break
			}
			if len(found) == maxPlaces {
				return found, nil
			}
			found = append(found, bytes.Clone(held[i:min(len(held), i+limit)]))
			held = held[i+len(text):]
		}
		if ended {
			return found, nil
		}
	}
}

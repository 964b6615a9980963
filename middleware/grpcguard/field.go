package grpcguard

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-go/holdfast/guard"
)

// Field is a rule for a method whose lock is c.Name of the request's fields at
// paths, in order. A path is made of field names as in the .proto file, joined by
// dots, and ends at a string, bytes, an integer or an enum (taken by number). A
// field that is not set is missing, and so is an empty string and, unless the
// field is optional, a 0.
func Field(fullMethod string, c *guard.Class, paths ...string) Rule {
	r := newRule(fullMethod)
	for _, text := range paths {
		p := path{text: text}
		for name := range strings.SplitSeq(text, ".") {
			p.names = append(p.names, protoreflect.Name(name))
			if !protoreflect.Name(name).IsValid() {
				r.err = invalid("%s: %q is no path of fields", fullMethod, text)
			}
		}
		r.paths = append(r.paths, p)
	}
	r.needs(c, len(paths), "field paths")
	all := r.paths
	r.name = func(_ context.Context, req any) (guard.Name, error) {
		m, ok := req.(proto.Message)
		if !ok {
			return guard.Name{}, invalid("%s: the request is a %T and has no fields", fullMethod, req)
		}
		parts := make([]string, len(all))
		for i, p := range all {
			var err error
			if parts[i], err = p.value(m.ProtoReflect()); err != nil {
				return guard.Name{}, err
			}
		}
		return c.Name(parts...), nil
	}
	return Rule{r}
}

type path struct {
	text  string
	names []protoreflect.Name
}

// step is the i-th field of the path in md.
func (p path) step(md protoreflect.MessageDescriptor, i int) (protoreflect.FieldDescriptor, error) {
	fd := md.Fields().ByName(p.names[i])
	switch last := i == len(p.names)-1; {
	case fd == nil:
		return nil, invalid("path %q: %s has no field %q", p.text, md.FullName(), p.names[i])
	case fd.Cardinality() == protoreflect.Repeated,
		!last && fd.Message() == nil,
		last && !canBeKey(fd.Kind()):
		return nil, invalid("path %q: the field %q cannot be part of a key", p.text, p.names[i])
	}
	return fd, nil
}

func canBeKey(k protoreflect.Kind) bool {
	switch k {
	case protoreflect.MessageKind, protoreflect.GroupKind,
		protoreflect.BoolKind, protoreflect.FloatKind, protoreflect.DoubleKind:
		return false
	}
	return true
}

func (p path) check(md protoreflect.MessageDescriptor) error {
	for i := range p.names {
		fd, err := p.step(md, i)
		if err != nil {
			return err
		}
		md = fd.Message()
	}
	return nil
}

func (p path) value(m protoreflect.Message) (string, error) {
	for i := range p.names {
		fd, err := p.step(m.Descriptor(), i)
		if err != nil {
			return "", err
		}
		if !m.Has(fd) {
			break
		}
		v := m.Get(fd)
		if fd.Message() != nil {
			m = v.Message()
			continue
		}
		part := v.String()
		if fd.Kind() == protoreflect.BytesKind {
			part = string(v.Bytes())
		}
		if part != "" {
			return part, nil
		}
	}
	return "", lacks("the field %q is missing or empty", p.text)
}

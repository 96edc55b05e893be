"""GGUF as bytes, for the scripts here: a reader that knows where each field is, and a writer that
writes whatever it is told, right or wrong. Standard library only."""
import struct

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_FORMATS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B",
            U64: "Q", I64: "q", F64: "d"}

# Elements and bytes per block, of the types that the test models use.
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 8: (32, 34), 10: (256, 84), 12: (256, 144),
          14: (256, 210), 30: (1, 2)}


class Value:
    """A value: type, and for arrays the element type. Raw bytes override both."""

    def __init__(self, type, value, element=None):
        self.type, self.value, self.element = type, value, element

    def body(self):
        if self.type == STRING:
            text = self.value if isinstance(self.value, bytes) else self.value.encode()
            return struct.pack("<Q", len(text)) + text
        if self.type == ARRAY:
            items = b"".join(Value(self.element, item).body() for item in self.value)
            return struct.pack("<IQ", self.element, len(self.value)) + items
        return struct.pack("<" + _FORMATS[self.type], self.value)


class Tensor:
    """shape[0] is the contiguous dimension; offset None: the next free place."""

    def __init__(self, name, shape, type, data, offset=None):
        self.name, self.shape, self.type, self.data, self.offset = name, list(shape), type, data, offset

    def size(self):
        return len(self.data)

    def copy(self):
        return Tensor(self.name, self.shape, self.type, self.data, self.offset)


class Model:
    def __init__(self):
        self.version = 3
        self.keys = []  # (name, Value), a list: duplicates can be written
        self.tensors = []

    def copy(self):
        other = Model()
        other.version = self.version
        other.keys = [(name, Value(v.type, v.value, v.element)) for name, v in self.keys]
        other.tensors = [t.copy() for t in self.tensors]
        return other

    def get(self, name):
        return next(v for k, v in self.keys if k == name)

    def has(self, name):
        return any(k == name for k, _ in self.keys)

    def set(self, name, type, value, element=None):
        new = Value(type, value, element)
        self.keys = [(k, new if k == name else v) for k, v in self.keys]
        if not self.has(name):
            self.keys.append((name, new))

    def drop(self, name):
        self.keys = [(k, v) for k, v in self.keys if k != name]

    def tensor(self, name):
        return next(t for t in self.tensors if t.name == name)

    def drop_tensor(self, name):
        self.tensors = [t for t in self.tensors if t.name != name]

    def padding(self, size):
        """Bytes from the end of something of this size to the next aligned place."""
        align = next((v.value for k, v in self.keys if k == "general.alignment" and v.type == U32), 32)
        return -size % (align if 0 < align <= 1 << 20 else 32)

    def head(self):
        """All that comes before the data, with its padding."""
        head = b"GGUF" + struct.pack("<IQQ", self.version, len(self.tensors), len(self.keys))
        for name, value in self.keys:
            text = name.encode()
            head += struct.pack("<Q", len(text)) + text + struct.pack("<I", value.type) + value.body()
        at = 0
        for t in self.tensors:
            offset = at if t.offset is None else t.offset
            text = t.name.encode()
            head += struct.pack("<Q", len(text)) + text + struct.pack("<I", len(t.shape))
            head += struct.pack("<%dQ" % len(t.shape), *t.shape) + struct.pack("<IQ", t.type, offset)
            at += t.size() + self.padding(t.size())
        return head + bytes(self.padding(len(head)))

    def layout(self):
        """The header with its padding, and the chunks of data after it."""
        return self.head(), [chunk for t in self.tensors
                             for chunk in (t.data, bytes(self.padding(len(t.data))))]

    def write(self):
        head, chunks = self.layout()
        return head + b"".join(chunks)


class Field:
    """One number of the header: kind, where, how wide, and the key or tensor that it belongs to."""

    def __init__(self, kind, at, width, subject):
        self.kind, self.at, self.width, self.subject = kind, at, width, subject


class Reader:
    """Reads a right file: .model, .fields in file order, .data_offset."""

    def __init__(self, data):
        self.data, self.at, self.fields, self.model = data, 0, [], Model()
        self.take("magic", 4, "")
        self.model.version = self.take("version", 4, "")
        n_tensors = self.take("n_tensors", 8, "")
        n_keys = self.take("n_keys", 8, "")
        for _ in range(n_keys):
            name = self.name()
            type = self.take("value type", 4, name)
            self.model.keys.append((name, self.value(type, name)))
        places = []
        for _ in range(n_tensors):
            name = self.name()
            n_dims = self.take("n_dims", 4, name)
            shape = [self.take("dim", 8, name) for _ in range(n_dims)]
            type = self.take("type", 4, name)
            places.append((name, shape, type, self.take("offset", 8, name)))
        align = self.model.get("general.alignment").value if self.model.has("general.alignment") else 32
        self.header_end = self.at
        self.data_offset = self.at + -self.at % align
        for name, shape, type, offset in places:
            n = 1
            for dim in shape:
                n *= dim
            weights, size = BLOCKS[type]
            start = self.data_offset + offset
            self.model.tensors.append(Tensor(name, shape, type, data[start : start + n // weights * size]))

    def take(self, kind, width, subject):
        self.fields.append(Field(kind, self.at, width, subject))
        self.at += width
        return int.from_bytes(self.data[self.at - width : self.at], "little")

    def name(self):
        size = int.from_bytes(self.data[self.at : self.at + 8], "little")
        name = self.data[self.at + 8 : self.at + 8 + size].decode()
        self.take("name size", 8, name)
        self.at += size
        return name

    def value(self, type, subject):
        if type == STRING:
            size = self.take("string size", 8, subject)
            self.at += size
            return Value(type, self.data[self.at - size : self.at])
        if type == ARRAY:
            element = self.take("element type", 4, subject)
            count = self.take("array count", 8, subject)
            items = []
            for i in range(count):
                if element == STRING:
                    size = int.from_bytes(self.data[self.at : self.at + 8], "little")
                    if i in (0, count - 1):
                        self.fields.append(Field("element size", self.at, 8, subject))
                    self.at += 8 + size
                    items.append(self.data[self.at - size : self.at])
                else:
                    width = struct.calcsize(_FORMATS[element])
                    items.append(struct.unpack_from("<" + _FORMATS[element], self.data, self.at)[0])
                    self.at += width
            return Value(type, items, element)
        width = struct.calcsize(_FORMATS[type])
        self.take("value", width, subject)
        return Value(type, struct.unpack_from("<" + _FORMATS[type], self.data, self.at - width)[0])

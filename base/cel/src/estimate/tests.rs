use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Extent, Parts};
use crate::Program;
use crate::types::{Field, ObjectType, Type};

fn list(item: (Type, Extent), most: u64) -> (Type, Extent) {
    (Type::list(item.0), Extent { most, parts: Parts::Items(Box::new(item.1)) })
}

fn map(value: (Type, Extent), most: u64) -> (Type, Extent) {
    (Type::map(Type::String, value.0), Extent { most, parts: Parts::Values(Box::new(value.1)) })
}

fn object<const N: usize>(fields: [(&str, (Type, Extent)); N]) -> (Type, Extent) {
    let (mut kinds, mut extents) = (BTreeMap::new(), BTreeMap::new());
    for (name, (kind, extent)) in fields {
        kinds.insert(name.to_owned(), Field { name: name.to_owned(), kind });
        extents.insert(name.to_owned(), extent);
    }
    let kind = Type::Object(Arc::new(ObjectType { name: "object".to_owned(), fields: kinds }));
    (kind, Extent { most: 0, parts: Parts::Fields(extents) })
}

/// Text of so many characters, each of which may take four bytes.
fn text(most: u64) -> (Type, Extent) {
    (Type::String, Extent::of(most * 4))
}

fn plain(kind: Type) -> (Type, Extent) {
    (kind, Extent::default())
}

fn schema() -> (Type, Extent) {
    object([
        ("s", text(100)),
        ("t", text(50)),
        ("u", text(5_000_000)),
        ("l", list(plain(Type::Int), 100)),
        ("ls", list(text(20), 10)),
        ("m", map(text(10), 20)),
        ("mm", map(map(text(10), 5), 20)),
        ("ll", list(list(text(3), 5), 6)),
        ("ml", map(list(text(3), 5), 6)),
        ("lo", list(object([("x", text(5))]), 7)),
        ("o", object([("x", plain(Type::Int)), ("y", text(30))])),
        ("a", plain(Type::Int)),
        ("b", (Type::Bytes, Extent::of(100))),
        ("d", (Type::Duration, Extent::of(32))),
        ("dt", (Type::Timestamp, Extent::of(32))),
        ("dts", list((Type::Timestamp, Extent::of(32)), 10)),
        ("bs", list((Type::Bytes, Extent::of(100)), 10)),
        ("any", (Type::Dyn, Extent::of(3_145_726))),
        ("anys", list((Type::Dyn, Extent::of(3_145_726)), 3)),
    ])
}

/// What Kubernetes 1.34 says that an expression may cost, found by asking it how much beside the expression still fits in the budget.
const KNOWN: &str = "
    - ['a','b'].join(',') == 'a'
    - ['a','bcdefghijklmnopq'].isSorted()
    - [self.s].isSorted()
    - format.dns1123Label().validate(self.s).value().all(x, x == self.s)
    - self.?ls == self.?ls
    - self.?ls.orValue(['a']).all(x, x == self.s)
    - self.?ls.orValue([]).all(x, x == self.s)
    - self.?s == optional.none()
    - self.ls.map(x,x).isSorted()
    - self.s.findAll('a').join() == 'a'
    - self.s.split(',').isSorted()
    - self.s.split(',').join() == 'a'
    - type(self.a) == type(self.a)
    - url(self.s).getQuery().all(k, k == self.s)
    0 false || true
    0 true
    1 'a' < 'b'
    1 'abc' == 'abcdefghijklmnopqrstuvwxyz'
    1 1 == 1
    1 b'abc' == b'abcdefghijklmnopqrstuvwxyz'
    1 has(self.a)
    10 self.mm['a']['b'] == self.u
    10005 sets.contains(self.l,self.l)
    10005 sets.intersects(self.l,self.l)
    102 self.l.isSorted()
    103 self.l.indexOf(1) > 1
    103 self.l.lastIndexOf(1) > 1
    103 self.l.max() == 1
    103 self.l.min() > 1
    103 self.l.sum() > 1
    103 self.m.exists(k, k.contains('a'))
    104 self.a in self.l
    11 self.ls[0].contains('a')
    112 self.bs.isSorted()
    113 self.lo.map(o, o.x).size() == 1
    12 'a' in self.ls
    12 self.a in []
    12 self.dts.isSorted()
    12 self.ls[0].matches('a')
    123 self.m.all(k, v, k == self.s)
    124 self.ls.join() == self.s
    124 self.s.replace('','b') == self.s
    124 self.s.replace('a','b') == self.u
    124 self.s.replace('a','bcd') == self.s
    124 self.s.replace('abc','') == self.u
    124 url(self.s) == url(self.s)
    125 self.ls.join(',') == self.s
    125 strings.quote(self.s) == self.u
    126 (self.ls + self.ls).all(x, x == self.s)
    126 self.s.find('[a-z]+') == self.s
    126 self.s.replace('a',self.t) == self.s
    126 self.s.replace(self.t,'b') == self.s
    127 self.lo.filter(o, o.x == 'a').size() == 1
    1284 format.dns1123Label().validate(self.s).hasValue()
    1284 format.qualifiedName().validate(self.s).hasValue()
    1284 format.uuid().validate(self.s).hasValue()
    1286 !format.named('uuid').value().validate(self.s).hasValue()
    1286 format.dns1123Label().validate(self.s).value().size() > 1
    13 [1,2,3].isSorted()
    13 self.ls[0] == self.s
    134 self.ls.existsOne(i, v, v == self.s)
    134 self.ls.max() == self.s
    135 self.m.transformMap(k, v, k == 'a', v).size() == 1
    1363 self.ls.all(x, self.ls.all(y, x == y))
    14 '%d'.format([self.a]) == 'a'
    14 '%s'.format([self.s]) == 'a'
    14 [?self.?s].size() == 1
    14 [self.a].size()==1
    14 self.b < self.b
    14 self.b == self.b
    14 self.dts.max() > timestamp('2020-01-01T00:00:00Z')
    14 self.l == self.l
    14 self.s in ['a','b']
    14 self.s in self.ls
    141 self.anys.all(x, x == self.s)
    1413 self.l.map(x,x).isSorted()
    1414 self.l.map(x,x).sum() > 1
    1415 self.l.map(x, x + 1).size() > 1
    143 oldSelf.ls.all(x, x == self.u)
    143 self.ls.all(x, x == self.s)
    15 self.a in [1,2,3]
    15 self.ls[0] in self.ls
    1515 self.l.filter(x, x > 1).size() > 1
    1515 self.l.map(x, x > 1, x).size() > 1
    153 self.ls.exists(i, v, v == self.s)
    154 self.lo.map(o, o.x).all(x, x == self.s)
    155 self.s in self.ls.map(x, x)
    163 self.ls.all(i, v, v == self.s && i > 1)
    163 self.m.all(k, self.m[k] == 'b')
    164 self.ls.join() == self.u
    164 self.ls.map(x, x.size()).sum() > 1
    166 self.s.matches('[a-z]+abcdefgh')
    167 self.s.replace(self.t,'b') == self.u
    1683 self.s.split(',').all(x, x == 'a')
    17 self.o.y == self.s
    18 self.anys.all(x, x == 'a')
    184 self.s.replace('ab','bcdef') == self.u
    19 [?self.?s].all(x, x == self.s)
    19 self.?s.optFlatMap(v, optional.of(v)).hasValue()
    194 self.ls.map(x, x).exists(y, y == 'a')
    2 ''.contains(self.s)
    2 'abc'.charAt(1) == 'b'
    2 -1 == self.a
    2 has(self.m.k)
    2 has(self.o.y)
    2 optional.none().hasValue()
    2 self == self
    2 self.a == 1
    2 self.a == 1 ? true : false
    2 self.s.contains('')
    2 self.s.matches('')
    2 self.s.startsWith('')
    2000005 self.m.k == self.u
    2000006 self.mm.k.j == self.u
    2000006 self.mm['a'].b == self.u
    2000045 ip(self.s) == ip(self.u)
    2000045 quantity(self.s) == quantity(self.u)
    2000045 url(self.s).getPort() == self.u
    2000204 bytes(self.s) == bytes(self.u)
    20005 sets.equivalent(self.l,self.l)
    203 self.m.all(k, v, v == self.s)
    204 self.s.replace('a','bcd') == self.u
    2054 self.s.matches(self.t)
    2096 self.s.find(self.t) == self.u
    21 [1,2,3] == [1]
    21 sets.contains([1],[])
    21 sets.contains([],[1])
    213 sets.contains(self.l,[1,2])
    23 ['abcdefghijklmnopqr','b'].all(x, x == self.s)
    234 self.m.transformMap(k, v, v).all(k, k == self.s)
    235 self.m.transformMap(k, v, v == self.s).size() == 1
    24 (true ? 'x' : self.t) == self.s
    24 self.s < self.t
    24 self.s == self.t
    24 self.s.endsWith(self.t)
    24 self.s.startsWith(self.t)
    24 string(self.b) == self.s
    24 string(self.b) == self.u
    245 self.ls.transformList(i, v, v == self.s).size() == 1
    245 self.s.replace('','bcd') == self.u
    2483 self.ls.all(x, self.ls.filter(y, x == y).size() == 1)
    2483 self.s.split(',').all(x, x == self.s)
    2485 self.s.findAll('[a-z]+').all(x, x == self.s)
    2485 self.s.findAll('[a-z]+', 3).all(x, x == self.s)
    25 self.b + self.b == b'a'
    26 [1,2,3].all(x, x > 1)
    265 self.ls.transformList(i, v, i > 1, v == self.s).size() == 1
    27 (self.a > 1 ? self.t : 'x') == self.s
    27 [self.s, self.t].all(x, x == self.s)
    27 [self.s,self.t] == [self.s]
    27 self.a > 1 ? self.s == self.t : self.a == 1
    27 self.s in (self.ls + self.ls)
    273 self.ll.all(x, x.all(y, y == self.s))
    275 self.m.map(k, k).size() == 1
    287 self.ls.exists_one(x, x == self.s) && self.ls.exists(x, x == self.s)
    291 self.ml.all(k, self.ml[k].all(y, y == self.s))
    3 bool(self.s)
    3 duration('1s') == duration('2s')
    3 dyn(self.a) == 1.0
    3 isURL(self.s)
    3 self.?a.hasValue()
    3 self.a > 1
    3 self.any == 'a'
    3 self.any == 1
    3 self.b == b'a'
    3 self.l[0] == 1
    3 self.s != 'x'
    3 self.s == 'abc'
    3 self.s > 'a'
    3 self.s.startsWith('abc')
    3 timestamp('2020-01-01T00:00:00Z') == timestamp('2020-01-01T00:00:00Z')
    314577 self.any == self.any
    32 {'a':1}.size()==1
    32 {}.size() == 1
    33 self.s in {'a':1}
    33 sets.intersects(self.ls,['a','b'])
    35 {'a': self.s}.a == self.s
    36 self.b + self.b == self.b
    394 self.m.transformList(k, v, v).all(x, x == self.s)
    4 !(self.a > 1)
    4 -self.a > 1
    4 double(self.a) > 1.0
    4 dyn(self.s) == 'a'
    4 int(self.s) == 1
    4 optional.of(self.s).hasValue()
    4 optional.ofNonZeroValue(self.s).hasValue()
    4 self.?a.orValue(1) == 1
    4 self.a % 2 == 0
    4 self.b.size() > 1
    4 self.d.getHours() > 1
    4 self.dt.getFullYear() > 1
    4 self.ls.first().hasValue()
    4 self.ls.last().hasValue()
    4 self.ls[0] == 'abc'
    4 self.m.k == 'a'
    4 self.m.size() > 1
    4 self.m['x'] == 'y'
    4 self.o == self.o
    4 self.s.charAt(1) == 'a'
    4 self.s.size() == 1
    4 self.s.size() > 1
    4 size(self.s)>1
    4 string(self.a) == 'a'
    4 type(self.a) == int
    4 type(self.s) == string
    4 uint(self.a) > 1u
    4000044 url(self.s) == url(self.u)
    404 self.l.exists_one(x, x > 1)
    42 isCIDR(self.s)
    42 isIP(self.s)
    42 isQuantity(self.s)
    42 isSemver(self.s)
    42 isSemver(self.s, true)
    42 self.s.contains('abc')
    43 bytes(self.s) == b'a'
    43 ip(self.s).isLoopback()
    43 quantity(self.s).isInteger()
    43 self.s.indexOf('a') > 1
    43 self.s.indexOf('a',2) > 1
    43 self.s.lastIndexOf('a') > 1
    43 self.s.lowerAscii() == 'a'
    43 self.s.matches('abc')
    43 self.s.substring(1) == 'a'
    43 self.s.upperAscii() == 'a'
    44 cidr(self.s).prefixLength() == 2
    44 ip(self.s).family() == 4
    44 oldSelf.s == self.u
    44 quantity(self.s).asApproximateFloat() > 1.0
    44 quantity(self.s).isGreaterThan(quantity('1'))
    44 self.ll[0].all(x, x == self.s)
    44 self.ml['a'].all(x, x == self.s)
    44 self.s == self.s
    44 self.s == self.u
    44 semver(self.s).isLessThan(semver('1.2.3'))
    44 semver(self.s).major() == 1
    44 semver(self.s, true).major() == 1
    44 sign(quantity(self.s)) == 1
    44 string(ip(self.s)) == 'a'
    44 url(self.s).getHost() == 'a'
    45 cidr(self.s).masked().prefixLength() == 2
    45 quantity(self.s).add(1).asInteger() == 1
    45 quantity(self.s).compareTo(quantity('1')) == 0
    45 self.?s.orValue('x') == self.s
    45 self.?s.value() == self.s
    45 self.s.charAt(1) == self.s
    45 self.s.indexOf(self.t) > 1
    45 string(cidr(self.s).masked()) == 'a'
    45 string(self.a) == self.s
    45 url(self.s).getQuery().size() > 1
    45 {'a': self.s, 'b': 'c'}.all(k, k == self.s)
    454 self.m.map(k, self.m[k]).all(x, x == self.u)
    455 self.lo.filter(o, o.x == 'a').all(o, o.x == self.s)
    46 dyn(self.s) == dyn(self.s)
    46 optional.of(self.s).value() == self.s
    46 self.?o.?y.orValue('x') == self.s
    46 self.ls.first().value() == self.s
    46 self.ls[?0].orValue('a') == self.s
    46 self.m[?'a'].orValue('a') == self.s
    47 (self.a > 1 ? self.s : self.t) == self.s
    47 self.?s.or(optional.of('x')).value() == self.s
    47 self.?s.orValue(self.t) == self.s
    482 'a' in self.s.split(',')
    5 !has(self.s) || self.s == 'a'
    5 duration(self.s) > duration('1s')
    5 dyn(self.o).y == self.u
    5 self.ll == self.ll
    5 self.lo == self.lo
    5 self.s in self.m
    503 self.l.all(x, x > 1)
    526 self.ls.join(self.t) == self.u
    53 self.s.format([1]) == 'a'
    55 '%s'.format([self.s]) == self.s
    57 '%s %s'.format([self.s,self.t]) == self.s
    6 dyn(self.ls)[0] == self.u
    6 self.ls[self.a] == 'abc'
    6 self.m == self.m
    6 timestamp(self.s) > self.dt
    603 self.l.exists(x, x > 1)
    61 self.?s.optMap(v, v == self.s).orValue(true)
    61 {'a':1,'b':2} == {'a':1}
    64 dyn(self.ls).all(x, x == self.u)
    65 self.s + self.t == 'x'
    65 semver(self.s) == semver(self.t)
    66 (self.a > 1 ? self.ls : self.ls).all(x, x == self.s)
    66 self.lo.all(o, o.x == self.s)
    66 semver(self.s).compareTo(semver(self.t)) == 0
    7 (self.ls + self.ls).size() == 1
    7 self.a * self.a - 1 > 4
    7 self.m['a'].contains('a')
    7 self.s.size() == self.t.size()
    715 self.m.transformMapEntry(k, v, {v: k}).size() == 1
    73 self.lo.all(o, has(o.x) && o.x == self.s)
    735 self.m.transformMapEntry(k, v, k == 'a', {v: k}).size() == 1
    74 (self.a > 1 ? self.ls : ['abc']).all(x, x == self.s)
    75 {'a': self.s}['a'] == self.s
    8 self.d == self.d
    8 self.dt + self.d > self.dt
    8 self.dt == self.dt
    8 self.ll[0][1] == self.s
    8 self.lo[0].x == self.s
    8 self.ls + self.ls == self.ls
    8 self.s.size() + self.t.size() > 1
    80 (self.ls + ['abc']).all(x, x == self.s)
    803 self.l.exists(x, x == 1 && self.a == x)
    804 self.s.contains(self.t)
    8086 self.s.replace('a',self.t) == self.u
    8148 self.s.replace(self.t,self.t) == self.u
    82 ip.isCanonical(self.s)
    82 self.s.contains('aaaaaaaaaaa')
    83 self.m.all(k, k == 'a')
    83 self.s.replace('a','b') == 'x'
    83 self.s.replace('a','b',2) == 'x'
    84 self.ls.join().size() > 1
    84 self.s.lowerAscii() == self.u
    84 self.s.split('a').size() > 1
    84 self.s.substring(1) == self.s
    84 self.s.substring(1) == self.u
    84 self.s.substring(1,3) == self.s
    84 self.s.trim() == self.s
    84 self.s.trim() == self.u
    84 strings.quote(self.s) == self.s
    85 ip(self.s) == ip(self.s)
    85 quantity(self.s) == quantity(self.s)
    85 self.s.find('a') == self.u
    85 string(cidr(self.s)) == self.s
    85 string(ip(self.s)) == self.s
    85 url(self.s).getEscapedPath() == self.s
    85 url(self.s).getHost() == self.s
    86 cidr(self.s).ip() == ip(self.s)
    86 cidr(self.s).masked() == cidr(self.s)
    86 self.s.findAll('[a-z]+').size() > 1
    87 cidr(self.s).ip() == cidr(self.s).ip()
    87 url(self.s).getQuery()['a'][0] == self.s
    88 cidr(self.s).containsIP(ip(self.s))
    88 cidr(self.s).containsIP(self.s)
    9 self.a > 1 && (self.a > 2 || self.a < 0)
    9 self.ls.size() > 1 && self.ls[0].size() > 1
    9 self.m['a'] == self.s
    9 self.m['k'] == self.u
    91 cidr(self.s).containsCIDR(cidr(self.s))
    91 cidr(self.s).containsCIDR(self.s)
    92 self.ls.isSorted()
    943860 self.anys.all(x, string(x) == self.s)
    95 self.ls.indexOf(self.s) > 1
    95 self.s.split(',', 3).all(x, x == 'a')
";

#[test]
fn estimates_are_those_of_kubernetes() {
    let (kind, extent) = schema();
    let mut wrong = Vec::new();
    for line in KNOWN.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (known, source) = line.split_once(' ').unwrap();
        let program = Program::compile(source, &[("self", kind.clone()), ("oldSelf", kind.clone())])
            .unwrap_or_else(|error| panic!("{source}: {error}"));
        let estimate = program.estimate(&extent);
        let right = match known {
            "-" => estimate > 10_000_000,
            known => known.parse() == Ok(estimate),
        };
        if !right {
            wrong.push(format!("{source}: {known} is {estimate}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The first step of a path is always taken for the root, even where it leads into what was made on the way.
#[test]
fn elements_of_what_was_made_count_as_large_as_the_root() {
    let cost = |root: &(Type, Extent), source: &str| {
        Program::compile(source, &[("self", root.0.clone())]).unwrap().estimate(&root.1)
    };
    let long = list(text(20), 1000);
    assert_eq!(cost(&long, "[1].all(y, y == 1)"), 16);
    assert_eq!(cost(&long, "type(self) == list"), 103);
    assert_eq!(cost(&list(text(20), 10), "self.map(x, x).all(y, y == y)"), 203);
    assert_eq!(cost(&map(text(20), 100), "self.map(k, k).all(y, y == y)"), 2813);
    assert_eq!(cost(&text(200), "['a'].all(x, x == x)"), 96);
    assert_eq!(cost(&list(list(text(3), 5), 10), "self.all(x, x.all(y, y == y))"), 402);
}

use super::*;

const PROTO: &str = "
message Ship {
  // How many.
  optional int32 masts = 2;

  repeated Sail sails = 1;
  map<string, .k8s.io.apimachinery.pkg.api.resource.Quantity> cargo = 3;
  optional .k8s.io.api.core.v1.Hull hull = 4;
}
message ShipList {
  optional .k8s.io.apimachinery.pkg.apis.meta.v1.ListMeta metadata = 1;
  repeated Ship items = 2;
}
";

const GO: &str = r#"
// +structType=atomic

// A ship.
type Ship struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	Masts *int32 `json:"masts,omitempty" protobuf:"varint,2,opt,name=masts"`
	// +listType=map
	// +listMapKey=name
	// +listMapKey=side
	Sails []Sail `json:"sails" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,1,rep,name=sails"`
	Cargo ResourceList `json:"cargo,omitempty" protobuf:"bytes,3,rep,name=cargo"`
	Hull `json:",inline" protobuf:"bytes,4,opt,name=hull"`
}
"#;

#[test]
fn numbers_come_from_protobuf_and_names_from_go() {
    let table = table(&proto::messages(PROTO), &structs::structs(GO), "fleet");
    assert_eq!(
        table,
        "Ship atomic\n\
         1 sails []Sail required map:name+side merge:name\n\
         2 masts *int32\n\
         3 cargo {}quantity\n\
         4 - core.Hull\n"
    );
}

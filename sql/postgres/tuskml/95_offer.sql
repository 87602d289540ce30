SELECT tuskml._tuskml_offer('tuskml', '@extschema@');

# Makes a user and two roles in a moto server and prints their keys as JSON. argv: URL of the server.
# Six calls without true keys: moto checks signatures from the seventh on (INITIAL_NO_AUTH_ACTION_COUNT).
import json
import sys

import botocore.session

session = botocore.session.get_session()
options = {
    "region_name": "us-east-1",
    "endpoint_url": sys.argv[1],
    "aws_access_key_id": "none",
    "aws_secret_access_key": "none",
}
iam = session.create_client("iam", **options)
sts = session.create_client("sts", **options)


def role(name):
    made = iam.create_role(RoleName=name, Path="/team/ci/", AssumeRolePolicyDocument="{}")
    return sts.assume_role(RoleArn=made["Role"]["Arn"], RoleSessionName="i-0abc")["Credentials"]


iam.create_user(UserName="runner", Path="/team/ci/")
user = iam.create_access_key(UserName="runner")["AccessKey"]
keys = {"user": user, "red": role("red-runner"), "blue": role("blue-runner")}
print(
    json.dumps(
        {
            name: {
                "accessKeyId": key["AccessKeyId"],
                "secretAccessKey": key["SecretAccessKey"],
                **({"sessionToken": key["SessionToken"]} if "SessionToken" in key else {}),
            }
            for name, key in keys.items()
        }
    )
)

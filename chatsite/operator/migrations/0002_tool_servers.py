from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('operator', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='ToolServer',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
            ],
            options={
                'verbose_name': 'tool',
                'managed': False,
                'default_permissions': ('view',),
            },
        ),
    ]
